//! What is allowed and probably a mistake: told in `Warning` headers, in the words of a real server.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

use super::validate::amount;
use crate::object::names::NameRule;
use crate::object::{at, meta};
use crate::registry::Served;

/// Labels of nodes that were replaced.
const OLD_LABELS: [(&str, &str, &str); 6] = [
    ("beta.kubernetes.io/arch", "1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "1.17", "node.kubernetes.io/instance-type"),
    ("node-role.kubernetes.io/master", "1.20", "node-role.kubernetes.io/control-plane"),
];

/// What to tell about an object that was accepted.
pub(crate) fn of(served: &Served, object: &Value, old: Option<&Value>) -> Vec<String> {
    let new = old.is_none();
    let mut warnings = Vec::new();
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => {
            if new {
                named(object, "the Pod's hostname", &mut warnings);
                selectors(at(object, "spec"), "spec", &mut warnings);
            }
            if new || old.and_then(|old| old.get("spec")) != object.get("spec") {
                pod_spec(at(object, "spec"), "spec", &mut warnings);
            }
        }
        ("", "services") => service(object.get("spec").unwrap_or(&Value::Null), &mut warnings),
        ("apps", "deployments" | "replicasets") => {
            selectors(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
            pod_spec(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
        }
        ("batch", "jobs") => {
            if new {
                named(object, "Pod names and hostnames", &mut warnings);
            }
            selectors(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
            pod_spec(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
        }
        _ => {}
    }
    warnings
}

fn service(spec: &Value, warnings: &mut Vec<String>) {
    let external = !list(spec, "externalIPs").is_empty();
    if text(spec, "clusterIP") == "None" && text(spec, "type") != "ExternalName" {
        let ignored = [
            (!text(spec, "loadBalancerIP").is_empty(), "loadBalancerIP"),
            (external, "externalIPs"),
            (text(spec, "sessionAffinity") == "ClientIP", "SessionAffinity"),
        ];
        for (_, field) in ignored.into_iter().filter(|(set, _)| *set) {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
    } else if external {
        let why = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(why.into());
    }
    if !text(spec, "externalName").is_empty() && text(spec, "type") != "ExternalName" {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
}

fn named(object: &Value, used: &str, warnings: &mut Vec<String>) {
    let wrong = NameRule::Label.check(meta(object, "name"));
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            wrong.join(" ")
        ));
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn pod_spec(spec: Option<&Value>, path: &str, warnings: &mut Vec<String>) {
    let Some(spec) = spec else { return };
    for (label, _) in spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        if let Some((_, since, instead)) = OLD_LABELS.iter().find(|(old, ..)| old == label) {
            warnings.push(format!(
                "{path}.nodeSelector[{label}]: deprecated since v{since}; use \"{instead}\" instead"
            ));
        }
    }
    let mut secrets = HashSet::new();
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        let name = text(secret, "name");
        if name.is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        } else if !secrets.insert(name) {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: duplicate name {name:?}"));
        }
    }
    for field in ["initContainers", "containers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            variables(container, &path, warnings);
            fractions(container, &path, warnings);
            ports(container, &path, warnings);
        }
    }
}

/// Selectors that select nothing.
fn selectors(spec: Option<&Value>, path: &str, warnings: &mut Vec<String>) {
    let Some(spec) = spec else { return };
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint.get("labelSelector").is_none_or(Value::is_null) {
            warnings.push(format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = spec.get("affinity").and_then(|affinity| affinity.get(kind)) else { continue };
        for (field, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", ".podAffinityTerm"),
        ] {
            for (index, term) in list(terms, field).iter().enumerate() {
                let term = if inner.is_empty() { Some(term) } else { term.get("podAffinityTerm") };
                if term.and_then(|term| term.get("labelSelector")).is_none_or(Value::is_null) {
                    warnings.push(format!(
                        "{path}.affinity.{kind}.{field}[{index}]{inner}.labelSelector: a null labelSelector results in \
                         matching no pod"
                    ));
                }
            }
        }
    }
}

fn variables(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        // One that refers to the earlier one is meant.
        let refers = text(variable, "value").contains(&format!("$({name})"));
        if !seen.insert(name) && !refers {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
}

fn fractions(container: &Value, path: &str, warnings: &mut Vec<String>) {
    for kind in ["limits", "requests"] {
        let amounts = container.get("resources").and_then(|r| r.get(kind)).and_then(Value::as_object);
        for (name, value) in amounts.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            let whole = amount(value).is_none_or(|amount| amount % 1_000_000_000 == 0);
            if ["memory", "ephemeral-storage"].contains(&name.as_str()) && !whole {
                warnings.push(format!(
                    "{path}.resources.{kind}[{name}]: fractional byte value \"{value}\" is invalid, must be an integer"
                ));
            }
        }
    }
}

fn ports(container: &Value, path: &str, warnings: &mut Vec<String>) {
    fn place(port: &Value) -> (i64, i64, &str, &str) {
        let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
        (number("containerPort"), number("hostPort"), text(port, "protocol"), text(port, "hostIP"))
    }
    let ports = list(container, "ports");
    let mut firsts = HashMap::with_capacity(ports.len());
    for (index, port) in ports.iter().enumerate() {
        let first = *firsts.entry(place(port)).or_insert(index);
        if first != index {
            warnings
                .push(format!("{path}.ports[{index}]: duplicate port definition with {path}.ports[{first}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_variable_that_builds_on_itself_is_meant() {
        let told = |value: &str| {
            let mut warnings = Vec::new();
            let env = json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": value}]});
            variables(&env, "c", &mut warnings);
            warnings.len()
        };
        assert_eq!((told("2"), told("$(A):2")), (1, 0));
    }
}
