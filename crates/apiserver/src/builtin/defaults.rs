//! Defaults of the built-in kinds: what a reader may count on being there.

use serde_json::{Map, Value, json};

use crate::object::meta;
use crate::registry::Served;

/// Fills in what the client left out.
pub(crate) fn apply(served: &Served, object: &mut Value) {
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => pod(object),
        ("", "services") => service(object),
        ("", "namespaces") => namespace(object),
        ("", "secrets") => secret(object),
        ("", "persistentvolumes") => {
            fill(
                object,
                &[
                    ("spec.persistentVolumeReclaimPolicy", json!("Retain")),
                    ("spec.volumeMode", json!("Filesystem")),
                ],
            );
            fill(object, &[("status.phase", json!("Pending"))]);
        }
        ("", "persistentvolumeclaims") => {
            fill(object, &[("spec.volumeMode", json!("Filesystem")), ("status.phase", json!("Pending"))]);
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            fill(object, &[("preemptionPolicy", json!("PreemptLowerPriority"))]);
        }
        ("autoscaling", "horizontalpodautoscalers") => fill(object, &[("spec.minReplicas", json!(1))]),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            fill(object, &[("roleRef.apiGroup", json!("rbac.authorization.k8s.io"))]);
        }
        _ => {}
    }
}

/// Sets each dotted path that has no value. What is no object on the way is left for validation to complain of.
fn fill(object: &mut Value, defaults: &[(&str, Value)]) {
    for (path, value) in defaults {
        let mut place = &mut *object;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let Some(map) = place.as_object_mut() else { break };
            let last = parts.peek().is_none();
            let missing = || {
                if last { value.clone() } else { Value::Object(Map::new()) }
            };
            place = map.entry(part).or_insert(Value::Null);
            // What a decoder shows for "not given".
            if place.is_null() || place == "" {
                *place = missing();
            }
        }
    }
}

/// Each element of a list at a dotted path.
fn each(object: &mut Value, path: &str, mut visit: impl FnMut(&mut Value)) {
    let place = path.split('.').try_fold(object, |value, part| value.get_mut(part));
    if let Some(items) = place.and_then(Value::as_array_mut) {
        items.iter_mut().for_each(&mut visit);
    }
}

fn pod(object: &mut Value) {
    fill(
        object,
        &[
            ("spec.restartPolicy", json!("Always")),
            ("spec.terminationGracePeriodSeconds", json!(30)),
            ("spec.dnsPolicy", json!("ClusterFirst")),
            ("spec.schedulerName", json!("default-scheduler")),
            ("spec.securityContext", json!({})),
            ("spec.enableServiceLinks", json!(true)),
            ("spec.serviceAccountName", json!("default")),
            ("status.phase", json!("Pending")),
        ],
    );
    let class = quality_of_service(object);
    fill(object, &[("status.qosClass", json!(class))]);
    each(object, "spec.initContainers", container);
    each(object, "spec.containers", container);
}

fn container(container: &mut Value) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    // A tag that moves is pulled every time.
    let name = image.rsplit('/').next().unwrap_or(image);
    let floating = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if floating { "Always" } else { "IfNotPresent" };
    fill(
        container,
        &[
            ("imagePullPolicy", json!(policy)),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("resources", json!({})),
        ],
    );
    each(container, "ports", |port| fill(port, &[("protocol", json!("TCP"))]));
    // A limit without a request asks for as much.
    if let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() {
        for (resource, amount) in limits {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                let requests = resources.entry("requests").or_insert_with(|| json!({}));
                if let Some(requests) = requests.as_object_mut() {
                    requests.entry(resource).or_insert(amount);
                }
            }
        }
    }
}

/// The pod's class by what its containers ask for.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers = ["initContainers", "containers"]
        .iter()
        .filter_map(|list| pod.get("spec")?.get(list)?.as_array())
        .flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                container.get("resources").and_then(|r| r.get(kind)).and_then(|r| r.get(resource))
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            all &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

fn service(object: &mut Value) {
    fill(
        object,
        &[
            ("spec.type", json!("ClusterIP")),
            ("spec.sessionAffinity", json!("None")),
            ("spec.internalTrafficPolicy", json!("Cluster")),
            ("spec.ipFamilies", json!(["IPv4"])),
            ("spec.ipFamilyPolicy", json!("SingleStack")),
            ("status.loadBalancer", json!({})),
        ],
    );
    if let Some(ip) = object.pointer("/spec/clusterIP").cloned() {
        fill(object, &[("spec.clusterIPs", json!([ip]))]);
    }
    each(object, "spec.ports", |port| {
        let target = port.get("port").cloned().unwrap_or(Value::Null);
        if let Some(port) = port.as_object_mut().filter(|port| port.get("targetPort") == Some(&json!(0))) {
            port.remove("targetPort");
        }
        fill(port, &[("protocol", json!("TCP")), ("targetPort", target)]);
    });
}

fn namespace(object: &mut Value) {
    fill(object, &[("spec.finalizers", json!(["kubernetes"])), ("status.phase", json!("Active"))]);
    let name = meta(object, "name").to_owned();
    if let Some(metadata) = object.get_mut("metadata") {
        let labels = metadata.as_object_mut().map(|m| m.entry("labels").or_insert_with(|| json!({})));
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
}

/// `stringData` is write-only: it is stored as `data`.
fn secret(object: &mut Value) {
    fill(object, &[("type", json!("Opaque"))]);
    let Some(map) = object.as_object_mut() else { return };
    let Some(Value::Object(texts)) = map.remove("stringData") else {
        return;
    };
    let data = map.entry("data").or_insert_with(|| json!({}));
    if let Some(data) = data.as_object_mut() {
        for (key, text) in texts {
            data.insert(key, base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

/// Standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            let known = digit <= chunk.len();
            let symbol = DIGITS.get(index as usize).copied().filter(|_| known).unwrap_or(b'=');
            text.push(char::from(symbol));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("a", "Always"),
            ("r:5000/a", "Always"),
            ("a:latest", "Always"),
            ("r:5000/a:1", "IfNotPresent"),
            ("a@sha256:00", "IfNotPresent"),
        ] {
            let mut value = json!({"image": image});
            container(&mut value);
            assert_eq!(value["imagePullPolicy"], policy, "{image}");
        }
    }
}
