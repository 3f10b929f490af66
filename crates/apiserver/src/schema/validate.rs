//! Value validation: everything but CEL.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::correlate::OldItems;
use super::error::{FieldError, FieldReason, show_float};
use super::node::{Checks, Kind, ListType, Node, type_name};
use super::path::Path;
use super::{celeval, junction};
use crate::failure::{Cause, MOST_CAUSES};
use crate::object::names;

/// What others found wrong with values, and whether something is missing elsewhere.
pub(super) type Elsewhere = (Vec<FieldError>, bool);

/// Validates a whole object, then its CEL rules.
pub(super) fn object(
    root: &Node,
    obj: &Value,
    old: Option<&Value>,
    (also, blocked): Elsewhere,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(root, obj, old, &Path::Root, &mut errors);
    tolerate_duplicates(root, old, &mut errors);
    errors.extend(also);
    rules(root, obj, old, errors, blocked)
}

/// The same when only the status was written: of the rest, only the rules are asked.
pub(super) fn status(
    root: &Node,
    obj: &Value,
    old: Option<&Value>,
    (also, blocked): Elsewhere,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(part), Some(value)) = (root.child("status"), obj.get("status")) {
        let old = old.and_then(|old| old.get("status"));
        node(part, value, old, &Path::Root, &mut errors);
        tolerate_duplicates(part, old, &mut errors);
    }
    // Texts speak of places in the status, fields of places in the object.
    for error in &mut errors {
        error.field = match error.field.as_str() {
            "<nil>" => "status".to_owned(),
            field if field.starts_with('[') => format!("status{field}"),
            field => format!("status.{field}"),
        };
    }
    errors.extend(also);
    rules(root, obj, old, errors, blocked)
}

/// Adds what rules say, if they can be asked.
fn rules(
    root: &Node,
    obj: &Value,
    old: Option<&Value>,
    mut errors: Vec<FieldError>,
    blocked: bool,
) -> Vec<FieldError> {
    if !root.has_rules {
        return errors;
    }
    // Rules may rely on types and sizes the schema promises; on an object that breaks them they would misfire.
    let blocks = |reason| {
        matches!(
            reason,
            FieldReason::Required
                | FieldReason::TooLong
                | FieldReason::TooMany
                | FieldReason::TypeInvalid
                | FieldReason::NotSupported
        )
    };
    if blocked || errors.iter().any(|e| blocks(e.reason)) {
        errors.push(FieldError::invalid(
            "",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to \
             complete validation",
        ));
    } else {
        celeval::check(root, obj, old, &mut errors);
    }
    errors
}

/// Duplicates are tolerated when the old object had some already, anywhere.
fn tolerate_duplicates(root: &Node, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let duplicate = |error: &FieldError| error.reason == FieldReason::Duplicate;
    if let Some(old) = old.filter(|_| errors.iter().any(duplicate)) {
        let mut before = Vec::new();
        node(root, old, None, &Path::Root, &mut before);
        if before.iter().any(duplicate) {
            errors.retain(|error| !duplicate(error));
        }
    }
}

/// Validates one value and everything below it.
pub(super) fn node(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    // Enough for any answer. Of these errors more than half are no duplicates, which may be forgiven in the end.
    if errors.len() > 2 * (MOST_CAUSES + 1) {
        return;
    }
    let before = errors.len();
    let fits = check_type(node, value, path, errors);
    check_range(node, value, path, errors);
    if fits {
        if let Some(checks) = &node.checks {
            check_value(checks, value, path, errors);
            // Junctions say nothing about null, in the real server too.
            if !value.is_null() {
                junction::check(checks, value, path, errors);
            }
        }
        match value {
            Value::Object(object) => members(node, object, old, path, errors),
            Value::Array(list) => items(node, list, old, path, errors),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    } else if let Some(checks) = node.checks.as_ref().filter(|_| !value.is_null()) {
        // A value of another type is none of those that are allowed either.
        check_enumeration(checks, value, path, errors);
    }
    // Ratcheting: what was wrong before and did not change is no reason to refuse this write. Compared only when
    // there is something to forgive, because it costs a walk.
    if errors.len() > before && old == Some(value) {
        errors.truncate(before);
    }
}

fn members(
    parent: &Node,
    object: &Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(checks) = &parent.checks {
        for name in &checks.required {
            if !object.contains_key(name) {
                errors.push(FieldError::required(Path::Field(path, name).to_string(), ""));
            }
        }
    }
    if parent.embedded {
        for name in ["apiVersion", "kind"] {
            if object.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(FieldError::required(Path::Field(path, name).to_string(), ""));
            }
        }
    }
    if let (true, Some(Value::Object(metadata))) = (parent.embedded, object.get("metadata")) {
        embedded_metadata(metadata, path, errors);
    }
    for (name, child) in object {
        if let Some(child_node) = parent.child(name) {
            node(child_node, child, parent.old_member(old, name), &Path::Field(path, name), errors);
        }
    }
}

/// Metadata is what it is everywhere, also inside another object.
fn embedded_metadata(metadata: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut causes = Vec::new();
    let map = |field: &str| metadata.get(field).and_then(Value::as_object);
    if let Some(name) = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
        let wrong = names::NameRule::Segment.check(name);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.name", name, why)));
    }
    if let Some(labels) = map("labels") {
        names::labels(labels, &mut causes);
    }
    if let Some(annotations) = map("annotations") {
        names::annotations(annotations, &mut causes);
    }
    errors.extend(causes.into_iter().map(|cause| FieldError {
        field: match path {
            Path::Root => cause.field,
            path => format!("{path}.{}", cause.field),
        },
        reason: FieldReason::Invalid,
        message: cause.message,
    }));
}

fn items(parent: &Node, list: &[Value], old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    check_unique(parent, list, path, errors);
    let Some(item_node) = &parent.items else { return };
    let old = OldItems::new(parent, old);
    for (index, item) in list.iter().enumerate() {
        node(item_node, item, old.get(index, item), &Path::Index(path, index), errors);
    }
}

/// Whether the value has the node's type. `null` fits a nullable node and then needs no further checks.
fn check_type(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> bool {
    if value.is_null() && node.nullable {
        return true;
    }
    let fits = match node.kind {
        None if node.int_or_string => value.is_string() || is_integer(value),
        None => true,
        Some(Kind::Object) => value.is_object(),
        Some(Kind::Array) => value.is_array(),
        Some(Kind::String) => value.is_string(),
        Some(Kind::Integer) => is_integer(value),
        Some(Kind::Number) => value.is_number(),
        Some(Kind::Boolean) => value.is_boolean(),
    };
    if !fits {
        let wanted = node.kind.map_or("integer,string", Kind::name);
        let actual = type_name(value);
        let detail = format!("{path} in body must be of type {wanted}: {actual:?}");
        errors.push(FieldError::type_invalid(path.to_string(), &Value::from(actual), detail));
    }
    fits
}

/// Whether a number fits into what holds its type and format. The error has no place but in its text.
fn check_range(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (Some(kind @ (Kind::Integer | Kind::Number)), Value::Number(number)) = (node.kind, value) else {
        return;
    };
    let format = node.format.as_deref();
    let fits = match (kind, format) {
        (Kind::Integer, Some("uint32")) => whole(number).is_some_and(|n| u32::try_from(n).is_ok()),
        (Kind::Integer, Some("uint64")) => whole(number).is_some_and(|n| u64::try_from(n).is_ok()),
        (Kind::Integer, Some("int32")) => whole(number).is_some_and(|n| i32::try_from(n).is_ok()),
        (Kind::Integer, _) => whole(number).is_some_and(|n| i64::try_from(n).is_ok()),
        (_, Some("float" | "float32")) => {
            number.as_f64().is_some_and(|float| float.abs() <= f64::from(f32::MAX))
        }
        _ => true,
    };
    if !fits {
        let name = kind.name();
        let how =
            format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
        let detail = format!("Checked value must be of type {name} {how} in {path}");
        errors.push(FieldError::invalid("", &Value::from(""), detail));
    }
}

/// A number without a fraction.
fn whole(number: &serde_json::Number) -> Option<i128> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e30);
    #[expect(clippy::cast_possible_truncation, reason = "bounded, and without a fraction")]
    number.as_i128().or_else(|| float().map(|float| float as i128))
}

/// Whole floats count as integers, as in the real server.
fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|f| f.fract() == 0.0),
        _ => false,
    }
}

fn check_enumeration(checks: &Checks, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    // An enumeration never allows null, not even when it lists it: so does the real server.
    if !checks.enumeration.is_empty()
        && (value.is_null() || !checks.enumeration.iter().any(|allowed| same(allowed, value)))
    {
        errors.push(FieldError::not_supported(path.to_string(), value, &checks.enumeration));
    }
}

fn check_value(checks: &Checks, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    check_enumeration(checks, value, path, errors);
    match value {
        Value::String(text) => check_string(checks, text, path, errors),
        Value::Number(number) => {
            if let Some(float) = number.as_f64() {
                check_number(checks, value, float, path, errors);
            }
        }
        Value::Array(list) => {
            let len = list.len();
            if checks.max_items.is_some_and(|max| len as u64 > max) {
                errors.push(FieldError::too_many(
                    path.to_string(),
                    len,
                    checks.max_items.unwrap_or_default(),
                ));
            }
            if let Some(min) = checks.min_items.filter(|min| (len as u64) < *min) {
                let detail = format!("{path} in body should have at least {min} items");
                errors.push(FieldError::invalid(path.to_string(), &Value::from(len), detail));
            }
        }
        Value::Object(object) => {
            let len = object.len();
            if checks.max_properties.is_some_and(|max| len as u64 > max) {
                errors.push(FieldError::too_many(
                    path.to_string(),
                    len,
                    checks.max_properties.unwrap_or_default(),
                ));
            }
            if let Some(min) = checks.min_properties.filter(|min| (len as u64) < *min) {
                let detail = format!("{path} in body should have at least {min} properties");
                errors.push(FieldError::invalid(path.to_string(), &Value::from(min), detail));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_string(checks: &Checks, text: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut invalid =
        |detail: String| errors.push(FieldError::invalid(path.to_string(), &Value::from(text), detail));
    if checks.max_length.is_some() || checks.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            invalid(format!("{path} in body should be at least {min} chars long"));
        }
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            errors.push(FieldError::too_long(path.to_string(), max));
        }
    }
    if let Some((source, regex)) = &checks.pattern
        && !regex.is_match(text)
    {
        let detail = format!("{path} in body should match '{source}'");
        errors.push(FieldError::invalid(path.to_string(), &Value::from(text), detail));
    }
    if let Some((name, format)) = &checks.format
        && !format.accepts(text)
    {
        let detail = format!("{path} in body must be of type {name}: {text:?}");
        errors.push(FieldError::type_invalid(path.to_string(), &Value::from(text), detail));
    }
}

fn check_number(checks: &Checks, value: &Value, number: f64, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path.to_string(), value, detail));
    if let Some((min, exclusive)) = checks.minimum
        && (number < min || (exclusive && number <= min))
    {
        let or_equal = if exclusive { "" } else { " or equal to" };
        invalid(format!("{path} in body should be greater than{or_equal} {}", show_float(min)));
    }
    if let Some((max, exclusive)) = checks.maximum
        && (number > max || (exclusive && number >= max))
    {
        let or_equal = if exclusive { "" } else { " or equal to" };
        invalid(format!("{path} in body should be less than{or_equal} {}", show_float(max)));
    }
    if let Some(factor) = checks.multiple_of
        && factor != 0.0
        && (number / factor).fract() != 0.0
    {
        invalid(format!("{path} in body should be a multiple of {}", show_float(factor)));
    }
}

/// Equality in which `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Sets hold no value twice, maps no key twice.
fn check_unique(node: &Node, list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::with_capacity(if node.list == ListType::Atomic { 0 } else { list.len() });
    let mut duplicates = HashSet::new();
    for (index, item) in list.iter().enumerate() {
        let id = match &node.list {
            ListType::Atomic => return,
            ListType::Set => item.clone(),
            ListType::Map(keys) => match item {
                Value::Object(object) => {
                    let key = |name: &String| Some((name.clone(), object.get(name)?.clone()));
                    Value::Object(keys.iter().filter_map(key).collect())
                }
                // Not an object: that is reported as a type error.
                _ => continue,
            },
        };
        // The text, because values have no hash; each duplicate is reported once.
        let text = id.to_string();
        if !seen.insert(text.clone()) && duplicates.insert(text) && errors.len() <= MOST_CAUSES {
            errors.push(FieldError::duplicate(Path::Index(path, index).to_string(), &id));
        }
    }
}
