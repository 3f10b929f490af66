//! Filling in what is missing. Nothing is made that is not needed: most objects that come in are complete.

use serde_json::{Map, Value};

pub(super) type Fields = Map<String, Value>;

/// Sets a text that is missing or empty; for a decoder the two are one.
pub(super) fn text(fields: &mut Fields, name: &str, value: &str) {
    if fields.get(name).is_none_or(|found| found.is_null() || found == "") {
        fields.insert(name.into(), value.into());
    }
}

/// Sets a value that is missing.
pub(super) fn value(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.into(), value.into());
    }
}

/// Sets a number that is missing or 0, where 0 means nothing.
pub(super) fn count(fields: &mut Fields, name: &str, value: i64) {
    if fields.get(name).is_none_or(|found| found.is_null() || found == 0) {
        fields.insert(name.into(), value.into());
    }
}

/// An object below, if it is there.
pub(super) fn below<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name).and_then(Value::as_object_mut)
}

/// An object below, made when it is missing.
pub(super) fn made<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    value(fields, name, Fields::new());
    below(fields, name)
}

/// The objects of a list below.
pub(super) fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A text, empty when it is missing.
pub(super) fn read<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}
