//! JSON merge patch, RFC 7396.

use serde_json::{Map, Value};

/// Merges `patch` into `target`: objects merge member by member, `null` removes, everything else replaces.
///
/// Own code instead of the json-patch crate's because that one clones the patch at every level.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(_) => merge(target.entry(key.as_str()).or_insert(Value::Null), value),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}
