//! Reading fields of objects: all of them are JSON as it came, because the commands show kinds they do not know.

use jiff::Timestamp;
use serde_json::Value;

/// Text at a JSON pointer, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list at a JSON pointer, empty if there is none.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A whole number at a JSON pointer, 0 if there is none.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A moment at a JSON pointer.
pub(crate) fn moment(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// A label, empty if there is none. Not by pointer: keys hold slashes.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of that type, if its status is True.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let mut all = items(object, "/status/conditions").iter();
    all.find(|condition| text(condition, "/type") == type_ && text(condition, "/status") == "True")
}

/// The state of a job in one word: its end, or the latest condition that holds.
pub(crate) fn state(job: &Value) -> &str {
    if !text(job, "/metadata/deletionTimestamp").is_empty() {
        return "Terminating";
    }
    for end in ["Failed", "Succeeded"] {
        if condition(job, end).is_some() {
            return end;
        }
    }
    let holds = |condition: &&Value| text(condition, "/status") == "True";
    // The list is ordered by the latest change.
    let latest = items(job, "/status/conditions").iter().rev().find(holds);
    latest.map_or("Pending", |condition| text(condition, "/type"))
}

/// True when a job has ended.
pub(crate) fn is_over(job: &Value) -> bool {
    condition(job, "Succeeded").is_some() || condition(job, "Failed").is_some()
}
