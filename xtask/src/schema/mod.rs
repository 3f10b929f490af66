//! From what schemars derives to what a Kubernetes API server accepts and Kubernetes users expect.
//!
//! Every rule is a function of a node and its path, applied by one walk. A path reads like
//! `.spec.tfReplicaSpecs{}.template.spec.containers[].name`: `{}` is any key of a map, `[]` any item of a list.

mod kubernetes;
mod ours;
pub(crate) mod structural;

use serde_json::{Map, Value};

/// A schema node: an object of JSON-schema keywords.
pub(crate) type Node = Map<String, Value>;

/// Fields whose types are Kubernetes' own, and the types. Below them the rules of the Kubernetes API hold, not ours.
const FOREIGN: &[(&str, &str)] = &[
    (".labelSelector", "LabelSelector"),
    (".metrics", "list of MetricSpec"),
    (".template", "PodTemplateSpec"),
];

/// Turns a derived schema into the one that is published.
pub(crate) fn fix(root: &mut Value) {
    visit(root, "", &mut |path, node| {
        ours::common(node);
        if is_foreign(path) {
            kubernetes::fix(path, node);
        }
        kubernetes::selector(node);
        ours::int_or_string(path, node);
    });
    ours::root(root);
}

/// True strictly below a field of one of Kubernetes' own types.
pub(crate) fn is_foreign(path: &str) -> bool {
    FOREIGN.iter().any(|(field, _)| {
        path.match_indices(field)
            .any(|(at, _)| matches!(path.as_bytes().get(at + field.len()), Some(b'.' | b'[')))
    })
}

/// The Kubernetes type that a field of ours holds: where the field reference stops.
pub(crate) fn foreign_type(path: &str) -> Option<&'static str> {
    let (_, name) = FOREIGN.iter().find(|(field, _)| path.ends_with(field))?;
    Some(name)
}

/// Calls `change` for a node, then for everything below it as `change` left it.
fn visit(schema: &mut Value, path: &str, change: &mut impl FnMut(&str, &mut Node)) {
    let Value::Object(node) = schema else { return };
    change(path, node);
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        for (name, child) in properties {
            visit(child, &format!("{path}.{name}"), change);
        }
    }
    if let Some(items) = node.get_mut("items") {
        visit(items, &format!("{path}[]"), change);
    }
    if let Some(values) = node.get_mut("additionalProperties") {
        visit(values, &format!("{path}{{}}"), change);
    }
}

/// The read-only twin of [`visit`].
pub(crate) fn walk<'a>(schema: &'a Value, path: &str, see: &mut impl FnMut(&str, &'a Node)) {
    let Value::Object(node) = schema else { return };
    see(path, node);
    for (name, child) in properties(node) {
        walk(child, &format!("{path}.{name}"), see);
    }
    if let Some(items) = node.get("items") {
        walk(items, &format!("{path}[]"), see);
    }
    if let Some(values) = node.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), see);
    }
}

/// The properties of a node, none if it has no such keyword.
pub(crate) fn properties(node: &Node) -> impl Iterator<Item = (&String, &Value)> {
    node.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The names under `required`.
pub(crate) fn required(node: &Node) -> impl Iterator<Item = &str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_begins_below_the_field_and_needs_the_whole_name() {
        assert!(is_foreign(".spec.x{}.template.spec"));
        assert!(is_foreign(".spec.elasticPolicy.metrics[]"));
        assert!(!is_foreign(".spec.x{}.template"));
        assert!(!is_foreign(".spec.templates.a"));
        assert!(!is_foreign(".spec.metricsPort"));
        assert_eq!(foreign_type(".spec.x{}.template"), Some("PodTemplateSpec"));
        assert_eq!(foreign_type(".spec.x{}.template.spec"), None);
    }
}
