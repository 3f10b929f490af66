//! Light validation of the built-in kinds: what controllers rely on, not every rule of a real server.

use serde_json::Value;
use std::collections::HashSet;

use crate::failure::Cause;

use crate::object::names::NameRule;
use crate::registry::Served;

/// What is wrong with an object; `old` is what it replaces.
pub(crate) fn check(served: &Served, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => {
            pod(object, &mut causes);
            if let Some(old) = old {
                pod_update(object, old, &mut causes);
            }
        }
        ("", "services") => service(object, old, &mut causes),
        ("", "configmaps" | "secrets") => data(object, old, &mut causes),
        ("scheduling.k8s.io", "priorityclasses") => {
            immutable(object, old, "value", &mut causes);
        }
        _ => {}
    }
    causes
}

fn immutable(object: &Value, old: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    if let Some(old) = old
        && old.get(field) != object.get(field)
    {
        causes.push(Cause::invalid(
            field,
            object.get(field).cloned().unwrap_or(Value::Null),
            "field is immutable",
        ));
    }
}

fn pod(object: &Value, causes: &mut Vec<Cause>) {
    let Some(containers) =
        object.pointer("/spec/containers").and_then(Value::as_array).filter(|c| !c.is_empty())
    else {
        causes.push(Cause::required("spec.containers", ""));
        return;
    };
    let mut seen = HashSet::new();
    let init = object.pointer("/spec/initContainers").and_then(Value::as_array);
    for (list, items) in [("initContainers", init), ("containers", Some(containers))] {
        for (index, container) in items.into_iter().flatten().enumerate() {
            let path = format!("spec.{list}[{index}]");
            container_names(container, &path, &mut seen, causes);
        }
    }
    let policy = object.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
    if !["Always", "OnFailure", "Never"].contains(&policy) {
        let message = "supported values: \"Always\", \"OnFailure\", \"Never\"";
        causes.push(Cause::unsupported("spec.restartPolicy", policy, message));
    }
}

fn container_names<'a>(
    container: &'a Value,
    path: &str,
    seen: &mut HashSet<&'a str>,
    causes: &mut Vec<Cause>,
) {
    let text = |field: &str| container.get(field).and_then(Value::as_str).unwrap_or_default();
    let name = text("name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    } else if let Some(why) = NameRule::Label.check(name).first() {
        causes.push(Cause::invalid(format!("{path}.name"), name, why));
    } else if !seen.insert(container.get("name").and_then(Value::as_str).unwrap_or_default()) {
        causes.push(Cause::duplicate(format!("{path}.name"), name));
    }
    if text("image").is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    }
}

/// A pod is planned once: afterwards little of it can change.
fn pod_update(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if fixed_part(object) != fixed_part(old) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or(Value::Null);
    if let Some(map) = spec.as_object_mut() {
        for field in
            ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"]
        {
            map.remove(field);
        }
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(container) = container.as_object_mut() {
                    container.remove("image");
                }
            }
        }
    }
    spec
}

fn service(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = |field: &str| object.get("spec").and_then(|s| s.get(field));
    let headless = spec("clusterIP").and_then(Value::as_str) == Some("None");
    let external = spec("type").and_then(Value::as_str) == Some("ExternalName");
    let ports = spec("ports").and_then(Value::as_array);
    if !headless && !external && ports.is_none_or(Vec::is_empty) {
        causes.push(Cause::required("spec.ports", ""));
    }
    let ports = ports.map(Vec::as_slice).unwrap_or_default();
    for (index, port) in ports.iter().enumerate() {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let path = format!("spec.ports[{index}].port");
            causes.push(Cause::invalid(path, number, "must be between 1 and 65535, inclusive"));
        }
        if ports.len() > 1 && port.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("spec.ports[{index}].name"), ""));
        }
    }
    let before = old.and_then(|o| o.pointer("/spec/clusterIP")).and_then(Value::as_str).unwrap_or_default();
    let after = spec("clusterIP").and_then(Value::as_str).unwrap_or_default();
    if !before.is_empty() && before != after && !external {
        causes.push(Cause::invalid("spec.clusterIPs[0]", after, "may not change once set"));
    }
}

/// An immutable ConfigMap or Secret stays what it is.
fn data(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|o| o.get("immutable") == Some(&Value::Bool(true))) else {
        return;
    };
    for field in ["data", "binaryData", "immutable"] {
        if old.get(field) != object.get(field) {
            causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}
