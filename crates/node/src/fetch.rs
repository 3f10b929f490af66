//! Fetching the objects a pod refers to, before they are needed.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::json;

use crate::sources::{Fetched, Reference, ReferenceKind, references};

/// What the pod refers to. What is not there is absent: whoever needs it says so.
pub(crate) async fn fetch(client: &Client, pod: &Pod) -> Result<Fetched, Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = Fetched::default();
    for Reference { kind, name, .. } in references(pod) {
        let key = (namespace.to_owned(), name.clone());
        match kind {
            ReferenceKind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
                found.config_maps.extend(api.get_opt(&name).await?.map(|object| (key, object)));
            }
            ReferenceKind::Secret => {
                let api = Api::<Secret>::namespaced(client.clone(), namespace);
                found.secrets.extend(api.get_opt(&name).await?.map(|object| (key, object)));
            }
            ReferenceKind::Claim => {
                let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
                found.claims.extend(api.get_opt(&name).await?.map(|object| (key, object)));
            }
        }
    }
    Ok(found)
}

/// Says on each claim in use that it is bound: here a claim is a directory, there is nothing else to wait for.
pub(crate) async fn bind_claims(client: &Client, fetched: &Fetched) {
    let unbound = fetched.claims.iter().filter(|(_, claim)| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound")
    });
    for ((namespace, name), _) in unbound {
        let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
        let patch = json!({ "status": { "phase": "Bound" } });
        if let Err(error) = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            tracing::debug!(name, %error, "cannot mark a claim as bound");
        }
    }
}
