//! Defaults of the built-in kinds: what a reader may count on being there.

mod fill;
mod pod;
mod service;
mod workload;

use serde_json::{Value, json};

use self::fill::{Fields, below, items, made, read, text, value};
use crate::builtin::base64;
use crate::registry::Served;

/// Fills in what an object shows only once it was stored and read again.
pub(crate) fn finish(served: &Served, object: &mut Value) {
    if served.group == "batch"
        && served.plural == "jobs"
        && let Some(object) = object.as_object_mut()
    {
        workload::job_labels(object);
    }
}

/// Fills in what the client left out. `new` when the object is being created: then the server also writes what only
/// it may write.
pub(crate) fn apply(served: &Served, object: &mut Value, new: bool) {
    let Some(object) = object.as_object_mut() else { return };
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => pod::pod(object, new),
        ("", "services") => service::service(object, new),
        ("", "endpoints") => service::endpoints(object),
        ("", "namespaces") => namespace(object),
        ("", "secrets") => secret(object),
        ("", "nodes") => node(object),
        ("", "persistentvolumes") => volume(object, new),
        ("", "persistentvolumeclaims") => claim(object),
        ("apps", "deployments") => workload::deployment(object),
        ("apps", "replicasets") => workload::replica_set(object),
        ("batch", "jobs") => workload::job(object, new),
        ("autoscaling", "horizontalpodautoscalers") => workload::autoscaler(object),
        ("discovery.k8s.io", "endpointslices") => service::endpoint_slice(object),
        ("scheduling.k8s.io", "priorityclasses") => text(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(object),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => {
            items(object, "webhooks").for_each(|hook| {
                webhook(hook);
                text(hook, "reinvocationPolicy", "Never");
            });
        }
        ("admissionregistration.k8s.io", _) => items(object, "webhooks").for_each(webhook),
        _ => {}
    }
}

fn namespace(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        value(spec, "finalizers", json!(["kubernetes"]));
    }
    if let Some(status) = made(object, "status") {
        text(status, "phase", "Active");
    }
    let Some(metadata) = made(object, "metadata") else { return };
    let name = read(metadata, "name").to_owned();
    if let (false, Some(labels)) = (name.is_empty(), made(metadata, "labels")) {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

/// `stringData` is write-only: it is stored as `data`.
fn secret(object: &mut Fields) {
    text(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.remove("stringData") else {
        return;
    };
    if let Some(data) = made(object, "data") {
        for (key, text) in texts {
            data.insert(key, base64::encode(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

/// What a node has, it gives, unless it says otherwise.
fn node(object: &mut Fields) {
    if let Some(spec) = below(object, "spec") {
        // One range has two names in the API, which always agree.
        let first = read(spec, "podCIDR").to_owned();
        let listed = spec.get("podCIDRs").and_then(|list| list.get(0)).and_then(Value::as_str);
        if !first.is_empty() {
            if listed != Some(&first) {
                spec.insert("podCIDRs".into(), json!([first]));
            }
        } else if let Some(first) = spec.get("podCIDRs").and_then(|list| list.get(0)).cloned() {
            spec.insert("podCIDR".into(), first);
        }
    }
    if let Some(status) = below(object, "status")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        value(status, "allocatable", capacity);
    }
}

fn volume(object: &mut Fields, new: bool) {
    let created = object.get("metadata").and_then(|m| m.get("creationTimestamp")).cloned();
    if let Some(spec) = made(object, "spec") {
        text(spec, "persistentVolumeReclaimPolicy", "Retain");
        text(spec, "volumeMode", "Filesystem");
        if let Some(path) = below(spec, "hostPath") {
            value(path, "type", "");
        }
    }
    if let Some(status) = made(object, "status") {
        text(status, "phase", "Pending");
        if let Some(created) = created.filter(|_| new) {
            status.insert("lastPhaseTransitionTime".into(), created);
        }
    }
}

fn claim(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        text(spec, "volumeMode", "Filesystem");
    }
    if let Some(status) = made(object, "status") {
        text(status, "phase", "Pending");
    }
}

fn binding(object: &mut Fields) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = made(object, "roleRef") {
        text(role, "apiGroup", GROUP);
    }
    for subject in items(object, "subjects") {
        if ["User", "Group"].contains(&read(subject, "kind")) {
            text(subject, "apiGroup", GROUP);
        }
    }
}

fn webhook(hook: &mut Fields) {
    text(hook, "failurePolicy", "Fail");
    text(hook, "matchPolicy", "Equivalent");
    value(hook, "namespaceSelector", Fields::new());
    value(hook, "objectSelector", Fields::new());
    value(hook, "timeoutSeconds", 10);
    items(hook, "rules").for_each(|rule| text(rule, "scope", "*"));
    if let Some(service) = below(hook, "clientConfig").and_then(|config| below(config, "service")) {
        value(service, "port", 443);
    }
}
