//! The shape of an incoming object and of its metadata.

use serde_json::{Map, Value};

use super::{drop_nulls, finalizers, meta, meta_map, names, too_deep};
use crate::failure::{Cause, Failure};
use crate::registry::Served;

const TEXTS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
];
const NUMBERS: &[&str] = &["generation", "deletionGracePeriodSeconds"];
const TEXT_MAPS: &[&str] = &["labels", "annotations"];
const LISTS: &[&str] = &["finalizers", "ownerReferences", "managedFields"];

/// Checks that a body is an object of the resource it was sent to, and brings its metadata into form. Returns the
/// metadata fields nobody knows, which are dropped.
pub(crate) fn shape(served: &Served, object: &mut Value) -> Result<Vec<String>, Failure> {
    if too_deep(object) {
        return Err(Failure::bad_request("the object is nested too deeply"));
    }
    let Some(map) = object.as_object_mut() else {
        return Err(Failure::bad_request("the body of the request is not an object"));
    };
    check_type(served, map)?;
    let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    drop_nulls(metadata);
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(mistyped(served, "metadata", "ObjectMeta"));
    };
    let mut unknown = Vec::new();
    for (field, value) in &*metadata {
        check_field(served, field, value, &mut unknown)?;
    }
    metadata.retain(|field, value| {
        // Decoding drops these: an empty text is the same as none.
        let empty = value == "" && TEXTS.contains(&field.as_str());
        !empty && !unknown.iter().any(|path| path.strip_prefix("metadata.") == Some(field))
    });
    if !served.custom {
        drop_nulls(object);
    }
    Ok(unknown)
}

/// The body names its type, and it is the one of the URL. Built-in kinds may leave it out.
fn check_type(served: &Served, map: &mut Map<String, Value>) -> Result<(), Failure> {
    let given = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (given("kind"), given("apiVersion"));
    if served.custom && kind.is_empty() {
        return Err(Failure::bad_request("Object 'Kind' is missing in the body of the request"));
    }
    if served.custom && api_version.is_empty() {
        return Err(Failure::bad_request("Object 'apiVersion' is missing in the body of the request"));
    }
    if !api_version.is_empty() && api_version != *served.api_version {
        let expected = &served.api_version;
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != served.kind {
        return Err(Failure::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: the kinds differ",
            served.version, served.kind
        )));
    }
    map.insert("kind".into(), served.kind.as_str().into());
    map.insert("apiVersion".into(), (&*served.api_version).into());
    Ok(())
}

fn mistyped(served: &Served, field: &str, expected: &str) -> Failure {
    Failure::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal into Go struct field \
         ObjectMeta.{field} of type {expected}",
        served.kind, served.version, served.kind
    ))
}

fn check_field(
    served: &Served,
    field: &str,
    value: &Value,
    unknown: &mut Vec<String>,
) -> Result<(), Failure> {
    let wrong = |expected: &str| Err(mistyped(served, &format!("metadata.{field}"), expected));
    if TEXTS.contains(&field) {
        if !value.is_string() {
            return wrong("string");
        }
    } else if NUMBERS.contains(&field) {
        if !value.is_i64() {
            return wrong("int64");
        }
    } else if TEXT_MAPS.contains(&field) {
        if !value.as_object().is_some_and(|map| map.values().all(Value::is_string)) {
            return wrong("map[string]string");
        }
    } else if LISTS.contains(&field) {
        let entry: fn(&Value) -> bool =
            if field == "finalizers" { Value::is_string } else { Value::is_object };
        if !value.as_array().is_some_and(|list| list.iter().all(entry)) {
            return wrong("list");
        }
    } else {
        unknown.push(format!("metadata.{field}"));
    }
    Ok(())
}

/// Everything that can be wrong with metadata beyond its shape.
pub(crate) fn validate(served: &Served, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (prefix, name) = (meta(object, "generateName"), meta(object, "name"));
    if !prefix.is_empty() {
        let wrong = served.names.check_prefix(prefix);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.generateName", prefix, why)));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = served.names.check(name);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.name", name, why)));
    }
    let Some(metadata) = meta_map(object) else {
        return causes;
    };
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        names::labels(labels, &mut causes);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        names::annotations(annotations, &mut causes);
    }
    owners(metadata, &mut causes);
    names::finalizers(&finalizers(object), !served.custom, &mut causes);
    causes
}

fn owners(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let Some(owners) = metadata.get("ownerReferences").and_then(Value::as_array) else {
        return;
    };
    let field = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        // A version with two slashes is none.
        let version = if api_version.matches('/').count() > 1 { "" } else { api_version };
        for (name, value, why) in [
            ("apiVersion", version, "version must not be empty"),
            ("kind", text("kind"), "must not be empty"),
            ("name", text("name"), "must not be empty"),
            ("uid", text("uid"), "must not be empty"),
        ] {
            if value.is_empty() {
                causes.push(Cause::invalid(format!("{field}.{name}"), text(name), why));
            }
        }
        if (api_version, text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_text(field, &shown(owner), why));
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let this = format!("{}/{}", text("kind"), text("name"));
        if let Some(first) = &controller {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            );
            let all: Vec<String> = owners.iter().map(shown).collect();
            causes.push(Cause::invalid_text(field, &format!("[{}]", all.join(",")), &why));
        } else {
            controller = Some(this);
        }
    }
}

/// An owner as errors quote it: in the order of the API's definition.
fn shown(owner: &Value) -> String {
    let optional =
        ["controller", "blockOwnerDeletion"].into_iter().filter(|field| owner.get(field).is_some());
    let fields: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .into_iter()
        .chain(optional)
        .map(|field| format!("\"{field}\":{}", owner.get(field).cloned().unwrap_or_else(|| "".into())))
        .collect();
    format!("{{{}}}", fields.join(","))
}
