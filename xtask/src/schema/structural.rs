//! Would a kube-apiserver take this schema? The rules for structural schemas, and those we add, as a list of
//! complaints.
//!
//! Stricter than the server on purpose: enums, `nullable` and keywords that nobody here needs are refused too, so
//! that a change in the derived types cannot slip into the API unseen.

use serde_json::{Value, json};

use super::{Node, properties, required, walk};

/// The keywords that our schemas may use.
const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "format",
    "items",
    "maximum",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Everything wrong with a schema, each as `path: complaint`.
pub(crate) fn complaints(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, "", &mut |path, node| {
        let mut say = |what: String| found.push(format!("{path}: {what}"));
        for keyword in node.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
            say(format!("keyword {keyword} does not belong here"));
        }
        types(node, &mut say);
        object(node, &mut say);
        list(node, &mut say);
        if let Some(default) = node.get("default") {
            value(default, node, &mut say);
        }
    });
    if schema.get("type") != Some(&json!("object")) {
        found.push("the root is not an object".into());
    }
    if schema.pointer("/properties/metadata").is_some_and(|meta| *meta != json!({ "type": "object" })) {
        found.push(".metadata: the API server allows only a type here".into());
    }
    found
}

fn types(node: &Node, say: &mut impl FnMut(String)) {
    let both = json!([{ "type": "integer" }, { "type": "string" }]);
    let int_or_string = node.get("x-kubernetes-int-or-string") == Some(&json!(true));
    match (node.get("type").and_then(Value::as_str), int_or_string) {
        (None, false) => say("no type".into()),
        (Some(_), true) => say("int-or-string with a type".into()),
        (Some("array" | "boolean" | "integer" | "number" | "object" | "string"), false) | (None, true) => {}
        (Some(other), false) => say(format!("unknown type {other}")),
    }
    if node.get("anyOf").is_some_and(|any| *any != both || !int_or_string) {
        say("anyOf other than that of int-or-string".into());
    }
    let format = node.get("format").and_then(Value::as_str);
    if !matches!(format, None | Some("int32" | "int64" | "double" | "byte" | "date-time")) {
        say(format!("unknown format {}", format.unwrap_or_default()));
    }
}

fn object(node: &Node, say: &mut impl FnMut(String)) {
    if node.contains_key("properties") && node.contains_key("additionalProperties") {
        say("both properties and additionalProperties".into());
    }
    if node.get("additionalProperties").is_some_and(|values| !values.is_object()) {
        say("additionalProperties is not a schema".into());
    }
    for name in required(node) {
        if !properties(node).any(|(known, _)| known == name) {
            say(format!("requires {name}, which is no property"));
        }
    }
}

fn list(node: &Node, say: &mut impl FnMut(String)) {
    let is_list = node.get("type") == Some(&json!("array"));
    let item = node.get("items").and_then(Value::as_object);
    if is_list != item.is_some() {
        say("a list and its items go together".into());
    }
    let keys: Vec<_> =
        node.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten().collect();
    if (node.get("x-kubernetes-list-type") == Some(&json!("map"))) == keys.is_empty() {
        say("list-type map and its keys go together".into());
    }
    let Some(item) = item else { return };
    for key in keys.into_iter().filter_map(Value::as_str) {
        let known = properties(item).find(|(name, _)| *name == key).map(|(_, schema)| schema);
        match known.and_then(Value::as_object) {
            None => say(format!("key {key} is no property of the items")),
            Some(schema) if !required(item).any(|name| name == key) && !schema.contains_key("default") => {
                say(format!("key {key} is neither required nor defaulted"));
            }
            Some(_) => {}
        }
    }
}

/// A default must be of the node's type and must not lose anything to pruning.
fn value(default: &Value, node: &Node, say: &mut impl FnMut(String)) {
    let fits = match node.get("type").and_then(Value::as_str) {
        Some("object") => default.is_object(),
        Some("array") => default.is_array(),
        Some("string") => default.is_string(),
        Some("boolean") => default.is_boolean(),
        Some("integer") => default.is_i64(),
        _ => false,
    };
    if !fits {
        return say(format!("default {default} is not of the type"));
    }
    for (name, inner) in default.as_object().into_iter().flatten() {
        match properties(node).find(|(known, _)| *known == name).map(|(_, schema)| schema) {
            Some(Value::Object(schema)) => value(inner, schema, say),
            _ => say(format!("default has unknown field {name}")),
        }
    }
    for name in required(node).filter(|name| default.get(name).is_none()) {
        say(format!("default lacks {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(node: Value, complaint: &str) {
        let schema = json!({ "type": "object", "properties": { "x": node } });
        let found = complaints(&schema).join("\n");
        assert!(found.contains(complaint), "expected {complaint:?} in {found:?}");
    }

    #[test]
    fn each_rule_catches_something() {
        check(json!({}), ".x: no type");
        check(json!({"type": "thing"}), "unknown type");
        check(json!({"type": "string", "x-kubernetes-int-or-string": true}), "with a type");
        check(json!({"type": "string", "nullable": true}), "keyword nullable");
        check(json!({"$ref": "#/y"}), "keyword $ref");
        check(json!({"type": "string", "enum": ["a"]}), "keyword enum");
        check(json!({"type": "integer", "format": "uint16"}), "unknown format uint16");
        check(json!({"type": "string", "anyOf": [{"type": "string"}]}), "anyOf other");
        check(
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            "both",
        );
        check(json!({"type": "object", "additionalProperties": false}), "is not a schema");
        check(json!({"type": "object", "properties": {}, "required": ["y"]}), "requires y");
        check(json!({"type": "array"}), "go together");
        check(json!({"type": "boolean", "default": "no"}), "not of the type");
        check(json!({"type": "object", "properties": {}, "default": {"y": 1}}), "unknown field y");
    }

    #[test]
    fn map_lists_need_usable_keys() {
        let list = |item: Value| json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
        let name = json!({"name": {"type": "string"}});
        check(list(json!({"type": "object", "properties": {}})), "is no property of the items");
        check(list(json!({"type": "object", "properties": name})), "neither required nor defaulted");
        check(
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
            "its keys",
        );
    }

    #[test]
    fn the_root_is_an_object_with_bare_metadata() {
        let schema =
            json!({"type": "string", "properties": {"metadata": {"type": "object", "properties": {}}}});
        let found = complaints(&schema);
        assert!(
            found.iter().any(|line| line.contains("root"))
                && found.iter().any(|line| line.contains("metadata"))
        );
    }

    #[test]
    fn a_good_schema_has_no_complaints() {
        let schema = json!({
            "type": "object",
            "properties": {
                "metadata": {"type": "object"},
                "spec": {"type": "object", "default": {}, "properties": {"suspend": {"type": "boolean", "default": false}}},
            }
        });
        assert_eq!(complaints(&schema), Vec::<String>::new());
    }
}
