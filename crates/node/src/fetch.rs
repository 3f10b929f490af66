//! Fetching the objects a pod refers to, before they are needed.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;

use crate::sources::{Fetched, Reference, ReferenceKind, audiences, references};

/// A year, in seconds.
const LONGEST_TOKEN: i64 = 365 * 24 * 60 * 60;

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
    for audience in audiences(pod) {
        found.tokens.extend(token(client, pod, audience).await?.map(|token| (audience.to_owned(), token)));
    }
    Ok(found)
}

/// A token of the pod's service account. It is bound to the pod and ends with it: nobody brings another one later, so it
/// is asked for as long as a pod may run.
async fn token(client: &Client, pod: &Pod, audience: &str) -> Result<Option<String>, Error> {
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.clone());
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let bound = BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name,
        uid: pod.metadata.uid.clone(),
    };
    let audiences = Some(audience).filter(|audience| !audience.is_empty()).map(str::to_owned);
    let spec = TokenRequestSpec {
        audiences: Some(audiences.into_iter().collect()),
        bound_object_ref: Some(bound),
        expiration_seconds: Some(LONGEST_TOKEN),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace.unwrap_or_default());
    let answer =
        api.create_token_request(account.unwrap_or("default"), &PostParams::default(), &request).await;
    match answer {
        Ok(answer) => Ok(answer.status.and_then(|status| status.token)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
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
