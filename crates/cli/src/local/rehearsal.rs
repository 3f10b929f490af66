//! What the API says to the children of jobs, asked of one that is thrown away: before anything is made here.
//!
//! Its rules for pods are many, and the operator meets them one refused pod at a time, while the job waits for ever.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use trainyard_core::{Child, Resource};
use trainyard_host::Host;

use super::run::{make_classes, send_plain};
use crate::manifests::Manifest;

/// A child of a job that is to be.
pub(crate) struct Planned {
    /// Whose it is, for messages.
    pub(crate) subject: String,
    pub(crate) child: Child,
}

/// The children that would be refused, one line each.
pub(crate) async fn refusals(documents: &[Manifest], planned: &[Planned]) -> anyhow::Result<Vec<String>> {
    let host = Host::start(trainyard_host::Options::bare()).await?;
    let client = host.client();
    send_plain(&client, documents).await?;
    make_classes(&client, &classes(planned)).await?;
    let (mut refused, mut known) = (Vec::new(), BTreeSet::new());
    for Planned { subject, child } in planned {
        let Some(why) = refusal(&client, child).await? else { continue };
        // Replicas of one kind have the same problem; once is enough.
        if known.insert((subject, child.what.kind, why.replace(&child.name, ""))) {
            refused.push(format!("{subject}: {} {} cannot be created: {why}", child.what.kind, child.name));
        }
    }
    host.stop().await?;
    Ok(refused)
}

/// The PriorityClasses that pods name.
pub(crate) fn classes(planned: &[Planned]) -> BTreeSet<String> {
    let pods = planned.iter().filter(|planned| planned.child.what == &Resource::POD);
    let named = pods.filter_map(|pod| pod.child.body.pointer("/spec/priorityClassName")?.as_str());
    named.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What the API has against a child, but for a name that is taken: what becomes of that is the operator's to say.
async fn refusal(client: &Client, child: &Child) -> anyhow::Result<Option<String>> {
    let Resource { group, version, kind, plural } = *child.what;
    let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    };
    let mut body = child.body.clone();
    // The job itself is not there, and what has no owner is cleaned up.
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("ownerReferences");
    }
    let object: DynamicObject = serde_json::from_value(body)?;
    let namespace = object.metadata.namespace.clone().unwrap_or_else(|| "default".into());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
            Ok(Some(status.message.clone()))
        }
        Err(error) => Err(error.into()),
    }
}
