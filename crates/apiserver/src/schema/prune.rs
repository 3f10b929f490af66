//! Dropping what the schema does not know.

use serde_json::Value;

use super::node::{Additional, META_FIELDS, Node};
use super::path::Path;

/// Prunes one value. `resource` is true at the root and at embedded resources.
pub(super) fn prune(
    node: &Node,
    value: &mut Value,
    resource: bool,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) {
    walk(node, value, resource, node.preserve, path, dropped);
}

/// With `open`, unknown members stay. The items of an open list are open too; members that are known are not.
fn walk(
    node: &Node,
    value: &mut Value,
    resource: bool,
    open: bool,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) {
    match value {
        Value::Object(object) => {
            object.retain(|name, child| {
                let path = Path::Field(path, name);
                if resource && META_FIELDS.contains(&name.as_str()) {
                    return true;
                }
                if let Some(node) = node.child(name) {
                    prune(node, child, node.embedded, &path, dropped);
                } else if matches!(node.additional, Additional::Any) {
                    // `additionalProperties: true` keeps plain values; it says nothing about fields further down.
                    clear(child, &path, dropped);
                } else if !open {
                    dropped.push(path.to_string());
                    return false;
                }
                true
            });
        }
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                let path = Path::Index(path, index);
                match &node.items {
                    Some(node) => walk(node, item, node.embedded, open || node.preserve, &path, dropped),
                    None if open => {}
                    None => clear(item, &path, dropped),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Drops every field of every object in a value without a schema.
fn clear(value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            dropped.extend(object.keys().map(|name| Path::Field(path, name).to_string()));
            object.clear();
        }
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                clear(item, &Path::Index(path, index), dropped);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
