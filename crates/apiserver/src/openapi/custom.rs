//! Custom resources: their schemas and paths as a real server publishes them.

use serde_json::{Map, Value, json};

use crate::object::at;
use crate::registry::Served;

const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Which of the two OpenAPI versions a schema is for. The older one knows less.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

/// `com.example.v1`: what the names of a version's schemas begin with.
fn prefix(served: &Served) -> String {
    let mut parts: Vec<&str> = served.group.split('.').rev().collect();
    parts.push(&served.version);
    parts.join(".")
}

/// The schemas of a resource and of its list, by name, given the version in its definition.
pub(super) fn schemas(served: &Served, version: &Value, dialect: Dialect) -> [(String, Value); 2] {
    let prefix = prefix(served);
    let (name, list) = (format!("{prefix}.{}", served.kind), format!("{prefix}.{}", served.list_kind));
    let mut schema = resource(at(version, "schema.openAPIV3Schema").unwrap_or(&Value::Null), dialect);
    let listed = list_of(served, &name);
    let gvk = |kind: &str| json!([{"group": served.group, "version": served.version, "kind": kind}]);
    if let Some(map) = schema.as_object_mut() {
        map.insert("x-kubernetes-group-version-kind".into(), gvk(&served.kind));
        let fields = at(version, "selectableFields").and_then(Value::as_array).filter(|f| !f.is_empty());
        if let Some(fields) = fields {
            map.insert("x-kubernetes-selectable-fields".into(), fields.iter().map(selectable).collect());
        }
    }
    let mut listed = listed;
    if let Some(map) = listed.as_object_mut() {
        map.insert("x-kubernetes-group-version-kind".into(), gvk(&served.list_kind));
    }
    [(name, schema), (list, listed)]
}

fn selectable(field: &Value) -> Value {
    let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
    json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
}

fn list_of(served: &Served, item: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}", served.list_kind, served.kind), "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "metadata": reference(LIST_META, LIST_METADATA),
            "items": {
                "description": format!("List of {}. More info: {LIST}", served.plural), "type": "array",
                "items": {"$ref": format!("#/components/schemas/{item}")},
            },
        },
    })
}

fn reference(to: &str, description: &str) -> Value {
    json!({"description": description, "allOf": [{"$ref": to}]})
}

/// A whole resource: the schema of its definition with the fields every object has.
fn resource(schema: &Value, dialect: Dialect) -> Value {
    let is_open = |schema: &Value| is_set(schema, "x-kubernetes-preserve-unknown-fields");
    if !schema.is_object() || (dialect == Dialect::V2 && is_open(schema)) {
        return json!({"type": "object"});
    }
    let mut schema = node(schema, dialect);
    if let Some(map) = schema.as_object_mut() {
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".into(), json!({"description": API_VERSION, "type": "string"}));
            properties.insert("kind".into(), json!({"description": KIND, "type": "string"}));
            properties.insert("metadata".into(), reference(OBJECT_META, METADATA));
        }
    }
    schema
}

fn is_set(schema: &Value, field: &str) -> bool {
    schema.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// One node of a structural schema and everything below it.
fn node(schema: &Value, dialect: Dialect) -> Value {
    let mut published = Map::new();
    for (field, value) in schema.as_object().into_iter().flatten() {
        let value = match field.as_str() {
            "properties" => value.as_object().map(|all| {
                all.iter().map(|(name, below)| (name.clone(), node(below, dialect))).collect::<Value>()
            }),
            "items" => Some(node(value, dialect)),
            "additionalProperties" if value.is_object() => Some(node(value, dialect)),
            _ => Some(value.clone()),
        };
        // What says nothing is not said.
        let says = |value: &Value| {
            !matches!(value, Value::Bool(false) | Value::Null)
                || field == "additionalProperties"
                || field == "default"
        };
        if let Some(value) = value.filter(says) {
            published.insert(field.clone(), value);
        }
    }
    if dialect == Dialect::V3 {
        unfold(&mut published);
    }
    let is = |published: &Map<String, Value>, field: &str| published.get(field) == Some(&Value::Bool(true));
    let open = is(&published, "x-kubernetes-preserve-unknown-fields");
    if dialect == Dialect::V2 {
        simplify(schema, &mut published, open);
    }
    if is(&published, "x-kubernetes-embedded-resource") && !(open && dialect == Dialect::V2) {
        embed(&mut published);
    }
    Value::Object(published)
}

/// Says of a value that is a number or a text that it is one of the two.
fn unfold(schema: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = |schema: &Map<String, Value>| {
        schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf")).cloned()
    };
    let is_either = schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    if !is_either || schema.get("anyOf") == Some(&either) || first(schema).as_ref() == Some(&either) {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".into(), either);
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, json!({"anyOf": either}));
    }
}

/// Leaves out what clients of the older version stumble over.
fn simplify(source: &Value, schema: &mut Map<String, Value>, open: bool) {
    for field in ["allOf", "anyOf", "oneOf", "not", "default"] {
        schema.remove(field);
    }
    let nullable = schema.remove("nullable").is_some();
    if nullable || open {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let listless = kind == Some("array") && !schema.contains_key("items");
    if nullable || listless || (open && kind == Some("object")) {
        schema.remove("type");
    }
    let may_be_null = |name: &Value| {
        let below = source.get("properties").and_then(|all| all.get(name.as_str().unwrap_or_default()));
        below.is_some_and(|below| is_set(below, "nullable"))
    };
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !may_be_null(name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// The fields every object has, on an object inside another.
fn embed(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties
            .insert("apiVersion".into(), json!({"description": EMBEDDED_API_VERSION, "type": "string"}));
        properties.insert("kind".into(), json!({"description": EMBEDDED_KIND, "type": "string"}));
        properties.insert("metadata".into(), reference(OBJECT_META, METADATA));
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

/// The paths of a resource, from lines recorded with other names.
pub(super) fn paths(served: &Served, pattern: &str) -> Vec<(String, String)> {
    let (first, upper) = if served.namespaced { ('t', 'T') } else { ('c', 'C') };
    let plural = format!("{first}plurals");
    let prefix = prefix(served);
    let operation: String = served.group.split('.').map(capital).collect::<String>();
    let mut tag = operation.clone();
    if let Some(head) = tag.get_mut(..1) {
        head.make_ascii_lowercase();
    }
    let named = [
        (format!("{upper}kindList"), served.list_kind.clone()),
        (format!("{upper}kind"), served.kind.clone()),
        (plural.clone(), served.plural.clone()),
        ("invalid.tgroup.vtversion".into(), prefix),
        ("TgroupInvalidVtversion".into(), format!("{operation}{}", capital(&served.version))),
        ("tgroupInvalid_vtversion".into(), format!("{tag}_{}", served.version)),
        ("tgroup.invalid".into(), served.group.clone()),
        ("vtversion".into(), served.version.clone()),
    ];
    pattern
        .lines()
        .filter(|line| line.split('/').any(|part| part.split('\t').next() == Some(plural.as_str())))
        .filter(|line| served.status || !line.contains("/{name}/status\t"))
        .filter(|line| served.scale.is_some() || !line.contains("/{name}/scale\t"))
        .filter_map(|line| {
            let line = named.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
            line.split_once('\t').map(|(path, item)| (path.to_owned(), item.to_owned()))
        })
        .collect()
}

fn capital(word: &str) -> String {
    let parts = word.split('-').map(|part| {
        let mut part = part.to_owned();
        if let Some(head) = part.get_mut(..1) {
            head.make_ascii_uppercase();
        }
        part
    });
    parts.collect()
}
