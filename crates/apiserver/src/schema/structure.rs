//! What makes a schema structural.
//!
//! Pruning and defaulting need one answer to "what is this field", so everything that decides it stands in one
//! skeleton of types, and the junctions may only check values.

use serde_json::{Map, Value};
use std::collections::HashSet;

use super::error::FieldError;
use super::node::{Additional, Kind, ListType, META_FIELDS, Node};
use super::parse::Level;

type Object = Map<String, Value>;

/// Keywords that JSON schema has and CRDs do not.
const UNSUPPORTED: [&str; 6] =
    ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "$schema"];
/// What may not stand inside a junction, and how it must be instead.
const SKELETON_ONLY: [(&str, &str); 13] = [
    ("title", "empty"),
    ("description", "empty"),
    ("default", "undefined"),
    ("nullable", "false"),
    ("externalDocs", "undefined"),
    ("additionalProperties", "undefined"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => true,
    }
}

/// The keywords of a schema that are none here. A schema with them is not looked at as a structural one.
pub(super) fn unsupported(schema: &Object) -> impl Iterator<Item = &'static str> {
    UNSUPPORTED.into_iter().filter(|name| schema.get(*name).is_some_and(is_set))
}

/// Refuses keywords that may not stand here at all.
pub(super) fn forbidden(schema: &Object, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    let set = |name: &str| schema.get(name).is_some_and(is_set);
    for name in unsupported(schema) {
        errors.push(FieldError::forbidden(format!("{path}.{name}"), format!("{name} is not supported")));
    }
    if set("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    if let Level::Branch { typed } = level {
        let untyped = (!typed).then_some(("type", "empty"));
        for (name, how) in SKELETON_ONLY.into_iter().chain(untyped).filter(|(name, _)| set(name)) {
            errors.push(FieldError::forbidden(
                format!("{path}.{name}"),
                format!("must be {how} to be structural"),
            ));
        }
        if schema.get("properties").and_then(|p| p.get("metadata")).is_some() {
            let detail = "must not be specified in a nested context";
            errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
        }
    }
}

/// Checks the node against its own parts.
pub(super) fn check(node: &Node, schema: &Object, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    if matches!(level, Level::Branch { .. }) {
        return;
    }
    check_type(node, schema, path, level, errors);
    check_flags(node, schema, path, errors);
    if !node.properties.is_empty() && !matches!(node.additional, Additional::None) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if level == Level::Root && !matches!(node.additional, Additional::None) {
        let detail = "must not be used at the root";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if level == Level::Root || node.embedded {
        check_meta_types(node, path, errors);
    }
    if level == Level::Root {
        check_metadata(schema, path, errors);
    }
    check_list(node, schema, path, errors);
    check_map_type(node, schema, path, errors);
}

fn kind_name(node: &Node) -> Value {
    Value::from(node.kind.map_or("", Kind::name))
}

/// Extensions that exclude each other or need something.
fn check_flags(node: &Node, schema: &Object, path: &str, errors: &mut Vec<FieldError>) {
    let (preserve, embedded) = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource");
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        let detail = "must be true or undefined";
        errors.push(FieldError::invalid(format!("{path}.{preserve}"), &Value::from(false), detail));
    }
    for (name, set) in [(preserve, node.preserve), (embedded, node.embedded)] {
        if node.int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{name}"), &Value::from(true), detail));
        }
    }
    if node.embedded && node.kind != Some(Kind::Object) {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match node.kind {
            None => FieldError::required(format!("{path}.type"), detail),
            Some(_) => FieldError::invalid(format!("{path}.type"), &kind_name(node), detail),
        });
    }
    if node.embedded && !matches!(node.additional, Additional::None) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if node.embedded && node.properties.is_empty() && !node.preserve {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

fn check_type(node: &Node, schema: &Object, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.type");
    // Already reported when the type is there and unknown.
    let untyped = schema.get("type").is_none_or(|t| !is_set(t));
    match level {
        Level::Root if untyped => errors.push(FieldError::required(field, "must not be empty at the root")),
        Level::Root => {
            if node.kind.is_some_and(|kind| kind != Kind::Object) {
                let actual = kind_name(node);
                errors.push(FieldError::invalid(field, &actual, "must be object at the root"));
            }
        }
        Level::Field | Level::Item if node.int_or_string => {
            if !untyped {
                let detail = "must be empty if x-kubernetes-int-or-string is true";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        Level::Field | Level::Item if untyped && !node.preserve && !node.embedded => {
            let what = if level == Level::Item { "array items" } else { "object fields" };
            errors.push(FieldError::required(field, format!("must not be empty for specified {what}")));
        }
        Level::Field | Level::Item | Level::Branch { .. } => {}
    }
    if node.kind == Some(Kind::Array) && node.items.is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
}

/// The fields the server knows keep their types.
fn check_meta_types(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    for name in META_FIELDS {
        let Some(child) = node.properties.get(name) else {
            continue;
        };
        let wanted = if name == "metadata" { Kind::Object } else { Kind::String };
        if child.kind != Some(wanted) {
            let detail = format!("must be {}", wanted.name());
            let field = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(field, &kind_name(child), detail));
        }
    }
}

/// `metadata` belongs to the server: a schema may restrict the two names in it and nothing else.
fn check_metadata(schema: &Object, path: &str, errors: &mut Vec<FieldError>) {
    let Some(Value::Object(metadata)) = schema.get("properties").and_then(|p| p.get("metadata")) else {
        return;
    };
    let extra_key =
        metadata.iter().any(|(key, value)| is_set(value) && !["type", "properties"].contains(&key.as_str()));
    let extra_property = metadata
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|p| p.keys().any(|name| name != "name" && name != "generateName"));
    if extra_key || extra_property {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}

fn check_list(node: &Node, schema: &Object, path: &str, errors: &mut Vec<FieldError>) {
    let Some(name) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        if schema.get("x-kubernetes-list-map-keys").is_some_and(is_set) {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::required(format!("{path}.x-kubernetes-list-type"), detail));
        }
        return;
    };
    let field = format!("{path}.x-kubernetes-list-type");
    if !["atomic", "set", "map"].contains(&name) {
        let supported = ["atomic", "set", "map"].map(Value::from);
        errors.push(FieldError::not_supported(field, &Value::from(name), &supported));
        return;
    }
    if node.kind != Some(Kind::Array) {
        let actual = kind_name(node);
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(FieldError::invalid(format!("{path}.type"), &actual, detail));
        return;
    }
    match (&node.list, &node.items) {
        (ListType::Map(keys), Some(items)) => check_map_keys(keys, items, path, errors),
        (ListType::Set, Some(items)) => {
            let granular = match items.kind {
                Some(Kind::Object) => !items.atomic_map,
                Some(Kind::Array) => items.list != ListType::Atomic,
                _ => false,
            };
            if granular || items.nullable {
                let detail = "items of a set must be scalars, atomic maps or atomic lists, and not nullable";
                errors.push(FieldError::forbidden(format!("{path}.items"), detail));
            }
        }
        (ListType::Atomic, _) | (_, None) => {}
    }
}

/// Errors that quote the whole list they are about are made only a few times.
const MOST_QUOTES: usize = 10;

fn check_map_keys(keys: &[String], items: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&field, "must not be empty if x-kubernetes-list-type is map"));
    }
    if items.kind != Some(Kind::Object) {
        let actual = kind_name(items);
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), &actual, detail));
        return;
    }
    let all = Value::from(keys);
    let required: HashSet<&String> = items.checks.iter().flat_map(|checks| &checks.required).collect();
    let mut seen = HashSet::new();
    // A real server goes on, and quotes all keys for each: one error more says as much.
    let most = errors.len() + MOST_QUOTES;
    for key in keys {
        if errors.len() > most {
            return;
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(&field, &all, "must not contain duplicate entries"));
        }
        let Some(property) = items.properties.get(key) else {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&field, &all, detail));
            continue;
        };
        if matches!(property.kind, Some(Kind::Array | Kind::Object)) {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            let actual = kind_name(property);
            errors.push(FieldError::invalid(format!("{path}.items.properties[{key}].type"), &actual, detail));
        }
        if !required.contains(key) && property.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(format!("{path}.items.properties[{key}].default"), detail));
        }
    }
}

fn check_map_type(node: &Node, schema: &Object, path: &str, errors: &mut Vec<FieldError>) {
    let Some(name) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else {
        return;
    };
    if name != "granular" && name != "atomic" {
        let supported = ["granular", "atomic"].map(Value::from);
        errors.push(FieldError::not_supported(
            format!("{path}.x-kubernetes-map-type"),
            &Value::from(name),
            &supported,
        ));
    }
    if node.kind != Some(Kind::Object) {
        let actual = kind_name(node);
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(FieldError::invalid(format!("{path}.type"), &actual, detail));
    }
}

/// A junction may only speak of fields that the skeleton declares.
pub(super) fn skeleton(
    branch: &Node,
    node: &Node,
    branch_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for (name, part) in &branch.properties {
        let branch_path = format!("{branch_path}.properties[{name}]");
        match node.properties.get(name) {
            Some(child) => skeleton(part, child, &branch_path, &format!("{path}.properties[{name}]"), errors),
            None if node.additional.schema().is_some() => {}
            None => {
                let detail = format!("because it is defined in {branch_path}");
                errors.push(FieldError::required(format!("{path}.properties[{name}]"), detail));
            }
        }
    }
    if let Some(part) = &branch.items {
        match &node.items {
            Some(items) => {
                skeleton(part, items, &format!("{branch_path}.items"), &format!("{path}.items"), errors)
            }
            None => {
                let detail = format!("because it is defined in {branch_path}.items");
                errors.push(FieldError::required(format!("{path}.items"), detail));
            }
        }
    }
    let Some(checks) = &branch.checks else { return };
    let inner = checks.all_of.iter().chain(&checks.any_of).chain(&checks.one_of).chain(&checks.not);
    for part in inner {
        skeleton(part, node, branch_path, path, errors);
    }
}
