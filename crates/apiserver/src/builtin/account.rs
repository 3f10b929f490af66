//! What a pod gets from its service account: a token at the place where every client library looks for one.

use serde_json::{Map, Value, json};

/// Where client libraries look.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How the volume is called, before something random.
const VOLUME: &str = "kube-api-access-";
/// An hour, and a little more by which such a token is known.
const EXPIRES: u32 = 3607;

type Fields = Map<String, Value>;

/// Gives a new pod the token of its account, unless one of them says no, and the account's secrets for pulling images if
/// it names none of its own.
pub(crate) fn furnish(pod: &mut Value, account: Option<&Value>, suffix: impl FnOnce() -> String) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if is_empty(spec.get("imagePullSecrets"))
        && let Some(secrets) = account.and_then(|account| account.get("imagePullSecrets"))
    {
        spec.insert("imagePullSecrets".into(), secrets.clone());
    }
    let wish = |from: Option<&Value>| from.and_then(Value::as_bool);
    let pods = wish(spec.get("automountServiceAccountToken"));
    let accounts = wish(account.and_then(|account| account.get("automountServiceAccountToken")));
    if pods.or(accounts).unwrap_or(true) {
        mount(spec, suffix);
    }
}

fn is_empty(list: Option<&Value>) -> bool {
    list.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn mount(spec: &mut Fields, suffix: impl FnOnce() -> String) {
    let names = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let mut names = names.filter_map(|volume| volume.get("name").and_then(Value::as_str));
    let existing = names.find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(|| format!("{VOLUME}{}", suffix()));
    let mut used = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            used |= mount_into(container, &name);
        }
    }
    if used && is_new {
        push(spec, "volumes", volume(&name));
    }
}

/// Whether the container did not have something there already.
fn mount_into(container: &mut Fields, name: &str) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    let mut paths = mounts.filter_map(|mount| mount.get("mountPath").and_then(Value::as_str));
    if paths.any(|path| path == MOUNT_PATH) {
        return false;
    }
    push(container, "volumeMounts", json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
    true
}

fn push(fields: &mut Fields, list: &str, item: Value) {
    match fields.get_mut(list) {
        Some(Value::Array(items)) => items.push(item),
        _ => {
            fields.insert(list.to_owned(), Value::Array(vec![item]));
        }
    }
}

fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": EXPIRES, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn furnished(spec: Value, account: Option<Value>) -> Value {
        let mut pod = json!({"spec": spec});
        furnish(&mut pod, account.as_ref(), || "abcde".into());
        pod["spec"].take()
    }

    #[test]
    fn every_container_gets_it_and_the_pod_one_volume() {
        let spec = furnished(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}), None);
        for list in ["initContainers", "containers"] {
            assert_eq!(spec[list][0]["volumeMounts"][0]["name"], "kube-api-access-abcde");
            assert_eq!(spec[list][0]["volumeMounts"][0]["mountPath"], MOUNT_PATH);
        }
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn the_pod_is_asked_before_the_account() {
        let no = json!({"automountServiceAccountToken": false});
        let containers = json!({"containers": [{"name": "c"}]});
        assert_eq!(furnished(containers.clone(), Some(no.clone())), containers);
        let mut spec = json!({"containers": [{"name": "c"}], "automountServiceAccountToken": true});
        assert!(furnished(spec.clone(), Some(no))["volumes"].is_array());
        spec["automountServiceAccountToken"] = false.into();
        assert_eq!(furnished(spec.clone(), None), spec);
    }

    #[test]
    fn what_is_there_already_is_kept() {
        let mounts = json!([{"name": "mine", "mountPath": MOUNT_PATH}]);
        let spec =
            json!({"containers": [{"name": "c", "volumeMounts": mounts}], "volumes": [{"name": "mine"}]});
        assert_eq!(furnished(spec.clone(), None), spec);
        let spec = json!({"containers": [{"name": "c"}], "volumes": [{"name": "kube-api-access-x"}]});
        let spec = furnished(spec, None);
        assert_eq!(spec["volumes"], json!([{"name": "kube-api-access-x"}]));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-x");
        assert_eq!(furnished(spec.clone(), None), spec);
    }

    #[test]
    fn secrets_for_images_come_from_the_account() {
        let account = json!({"imagePullSecrets": [{"name": "s"}]});
        let own = json!({"containers": [], "imagePullSecrets": [{"name": "own"}]});
        assert_eq!(
            furnished(json!({"containers": []}), Some(account.clone()))["imagePullSecrets"][0]["name"],
            "s"
        );
        assert_eq!(furnished(own.clone(), Some(account)), own);
    }
}
