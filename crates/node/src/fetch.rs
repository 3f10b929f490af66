//! Fetching the objects a pod refers to, before they are needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;

use crate::options::Clock;
use crate::sources::{self, Fetched, Reference, ReferenceKind, references};

/// What the pod refers to. What is not there is absent: whoever needs it says so.
pub(crate) async fn fetch(client: &Client, pod: &Pod, known: &mut Tokens) -> Result<Fetched, Error> {
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
    for (audience, seconds) in sources::tokens(pod) {
        found.tokens.extend(known.token(client, pod, (audience, seconds)).await?);
    }
    Ok(found)
}

/// Tokens that a pod was given: each is used until most of its time is over, and then replaced.
pub(crate) struct Tokens {
    clock: Clock,
    /// By whom they are for, with when they are to be replaced.
    known: BTreeMap<String, (String, Timestamp)>,
}

impl Tokens {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, known: BTreeMap::new() }
    }

    async fn token(
        &mut self,
        client: &Client,
        pod: &Pod,
        (audience, seconds): (&str, i64),
    ) -> Result<Option<(String, String)>, Error> {
        let now = (self.clock)();
        if let Some((token, _)) = self.known.get(audience).filter(|(_, until)| now < *until) {
            return Ok(Some((audience.to_owned(), token.clone())));
        }
        let Some((token, expires)) = request(client, pod, (audience, seconds)).await? else {
            return Ok(None);
        };
        let until = expires.map_or(now, |expires| now + expires.duration_since(now) * 4 / 5);
        self.known.insert(audience.to_owned(), (token.clone(), until));
        Ok(Some((audience.to_owned(), token)))
    }
}

/// A token of the pod's service account with its end. It is bound to the pod: it ends with it at the latest.
async fn request(
    client: &Client,
    pod: &Pod,
    (audience, seconds): (&str, i64),
) -> Result<Option<(String, Option<Timestamp>)>, Error> {
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
        expiration_seconds: Some(seconds),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace.unwrap_or_default());
    let answer =
        api.create_token_request(account.unwrap_or("default"), &PostParams::default(), &request).await;
    match answer {
        Ok(answer) => Ok(answer
            .status
            .and_then(|status| Some((status.token?, status.expiration_timestamp.map(|time| time.0))))),
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
