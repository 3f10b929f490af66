//! Filling in defaults.

use serde_json::Value;

use super::node::Node;

/// Applies the defaults below one value. The value itself is present; its own default does not matter here.
/// A null that may be none and has no default stays if it is `kept`, and goes otherwise.
pub(super) fn default(node: &Node, value: &mut Value, kept: bool) {
    match value {
        Value::Object(object) => {
            // A null that may not be one counts as absent: its default takes its place.
            object.retain(|name, child| {
                let node = if child.is_null() { node.child(name).filter(|n| !n.nullable) } else { None };
                match node.map(|n| &n.default) {
                    None => true,
                    Some(None) => kept,
                    Some(Some(default)) => {
                        *child = default.clone();
                        true
                    }
                }
            });
            for name in &node.defaulted {
                if !object.contains_key(name)
                    && let Some(default) = node.properties.get(name).and_then(|n| n.default.as_ref())
                {
                    object.insert(name.clone(), default.clone());
                }
            }
            for (name, child) in object.iter_mut() {
                if let Some(node) = node.child(name) {
                    default(node, child, kept);
                }
            }
        }
        Value::Array(list) => {
            let Some(node) = &node.items else { return };
            for item in list {
                if item.is_null()
                    && !node.nullable
                    && let Some(default) = &node.default
                {
                    *item = default.clone();
                }
                default(node, item, kept);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
