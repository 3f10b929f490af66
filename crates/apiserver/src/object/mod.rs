//! Reading and changing objects as JSON values, without ever trusting their shape.

pub(crate) mod metadata;
pub(crate) mod names;

use serde_json::{Map, Value};

/// Objects nest at most this deep. Below what the JSON parser accepts, so that what was stored can be read again
/// whatever a patch built.
const MAX_DEPTH: usize = 100;

/// A string field of the metadata; empty when it is missing.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// What a refusal calls a new object, which may not have its name yet.
pub(crate) fn name_in_refusals(object: &Value) -> &str {
    ["name", "generateName"]
        .into_iter()
        .map(|field| meta(object, field))
        .find(|name| !name.is_empty())
        .unwrap_or("Unknown")
}

pub(crate) fn meta_map(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

/// The metadata for writing. Objects are checked to have one when they come in.
pub(crate) fn meta_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

pub(crate) fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(metadata) = meta_mut(object) {
        metadata.insert(field.into(), value.into());
    }
}

/// Takes a metadata field over from another object, also when it is missing there.
pub(crate) fn carry_meta(to: &mut Value, from: &Value, field: &str) {
    let value = meta_map(from).and_then(|m| m.get(field)).cloned();
    if let Some(metadata) = meta_mut(to) {
        match value {
            Some(value) => metadata.insert(field.into(), value),
            None => metadata.remove(field),
        };
    }
}

/// Takes a top-level field over from another object, also when it is missing there.
pub(crate) fn carry(to: &mut Value, from: &Value, field: &str) {
    if let Some(map) = to.as_object_mut() {
        match from.get(field) {
            // Nearly always it is the same, and to see that is cheaper than to copy it.
            Some(value) if map.get(field) == Some(value) => {}
            Some(value) => {
                map.insert(field.into(), value.clone());
            }
            None => {
                map.remove(field);
            }
        }
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    meta_map(object).and_then(|m| m.get("deletionTimestamp")).is_some_and(|t| !t.is_null())
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    meta_map(object)
        .and_then(|m| m.get("finalizers"))
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if let Some(metadata) = meta_mut(object) {
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), finalizers.into());
        }
    }
}

/// A value by its dotted path.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, part| value.get(part))
}

/// Writes a value at a path, making the objects on the way. False when something on the way is no object.
pub(crate) fn set_at(object: &mut Value, path: &[String], value: Value) -> bool {
    let Some((last, parents)) = path.split_last() else {
        return false;
    };
    let mut place = object;
    for part in parents {
        let Some(map) = place.as_object_mut() else {
            return false;
        };
        place = map.entry(part.as_str()).or_insert_with(|| Value::Object(Map::new()));
    }
    place.as_object_mut().map(|map| map.insert(last.clone(), value)).is_some()
}

/// Removes null members everywhere, as decoding into typed objects does.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an object nests deeper than is stored.
pub(crate) fn too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Object(map) => left == 0 || map.values().any(|v| deeper(v, left - 1)),
            Value::Array(items) => left == 0 || items.iter().any(|v| deeper(v, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    deeper(value, MAX_DEPTH)
}

/// Seconds since the epoch as the API writes times.
pub(crate) fn time(now: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
