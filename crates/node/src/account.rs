//! The token of a pod's service account, which every pod has a volume for whether it asked or not.
//!
//! To put it where client libraries look a container needs a mount namespace, with most of `/run` in it as it was when
//! the container started. Few pods talk to the API, so only those get it of which somebody meant it: they run as an
//! account of their own, or say that they want the token.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

/// How the API calls the volume that it adds by itself.
const VOLUME: &str = "kube-api-access-";

/// The pod as it is run here: without the token that it did not ask for, or that cannot be used or mounted.
pub(crate) fn trimmed(pod: &Pod, usable: impl FnOnce() -> bool) -> Cow<'_, Pod> {
    let Some(spec) = pod.spec.as_ref().filter(|spec| has_token(spec)) else { return Cow::Borrowed(pod) };
    if is_meant(spec) && usable() {
        return Cow::Borrowed(pod);
    }
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        without_token(spec);
    }
    Cow::Owned(pod)
}

/// How programs in the pod find the API; nothing if they have no token for it.
pub(crate) fn env(pod: &Pod, api: Option<SocketAddr>) -> BTreeMap<String, String> {
    let has_token = pod.spec.as_ref().is_some_and(has_token);
    let Some(api) = api.filter(|_| has_token) else { return BTreeMap::new() };
    let (host, port) = (api.ip().to_string(), api.port().to_string());
    let fields = [
        ("KUBERNETES_SERVICE_HOST", host),
        ("KUBERNETES_SERVICE_PORT", port.clone()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", port),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn is_automatic(volume: &Volume) -> bool {
    volume.name.starts_with(VOLUME) && volume.projected.is_some()
}

fn has_token(spec: &PodSpec) -> bool {
    spec.volumes.iter().flatten().any(is_automatic)
}

fn is_meant(spec: &PodSpec) -> bool {
    let account = spec.service_account_name.as_deref().unwrap_or_default();
    !matches!(account, "" | "default") || spec.automount_service_account_token == Some(true)
}

fn without_token(spec: &mut PodSpec) {
    let volumes = spec.volumes.take().unwrap_or_default();
    let (gone, kept): (Vec<Volume>, Vec<Volume>) = volumes.into_iter().partition(is_automatic);
    spec.volumes = Some(kept);
    let strip = |container: &mut Container| {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| gone.iter().all(|volume| volume.name != mount.name));
        }
    };
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(strip);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: &serde_json::Value) -> Pod {
        let mut pod = json!({ "spec": {
            "containers": [{ "name": "c", "volumeMounts": [
                { "name": "kube-api-access-abcde", "mountPath": "/t" }, { "name": "v", "mountPath": "/v" }] }],
            "volumes": [{ "name": "kube-api-access-abcde", "projected": {} }, { "name": "v", "emptyDir": {} }] } });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn volumes(pod: &Pod) -> (usize, usize) {
        let spec = pod.spec.as_ref().unwrap();
        (spec.volumes.as_ref().unwrap().len(), spec.containers[0].volume_mounts.as_ref().unwrap().len())
    }

    #[test]
    fn only_who_meant_it_has_a_token() {
        for (spec, left) in [
            (json!({}), 1),
            (json!({ "serviceAccountName": "default" }), 1),
            (json!({ "serviceAccountName": "mine" }), 2),
            (json!({ "serviceAccountName": "default", "automountServiceAccountToken": true }), 2),
        ] {
            assert_eq!(volumes(&trimmed(&pod(&spec), || true)), (left, left), "{spec}");
            assert_eq!(volumes(&trimmed(&pod(&spec), || false)), (1, 1), "{spec}");
        }
    }

    #[test]
    fn a_volume_of_the_pods_own_stays() {
        let mut own = pod(&json!({}));
        own.spec.as_mut().unwrap().volumes.as_mut().unwrap().remove(0);
        assert!(matches!(trimmed(&own, || false), Cow::Borrowed(_)));
    }

    #[test]
    fn who_has_a_token_is_told_where_the_api_is() {
        let api = Some(([127, 0, 0, 1], 6443).into());
        let with = pod(&json!({ "serviceAccountName": "mine" }));
        assert_eq!(env(&with, api)["KUBERNETES_SERVICE_PORT"], "6443");
        assert!(env(&with, None).is_empty());
        assert!(env(&trimmed(&pod(&json!({})), || true), api).is_empty());
    }
}
