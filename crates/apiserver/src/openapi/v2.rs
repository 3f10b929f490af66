//! The OpenAPI v2 document: everything in one, for clients from before there was another.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::custom::{self, Dialect};
use super::v3::{GROUPED, members, place, with_kinds};
use super::{Definitions, recorded, served_path};
use crate::registry::Catalog;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

pub(super) fn document(catalog: &Catalog, definitions: &Definitions<'_>) -> String {
    let mut paths = BTreeMap::new();
    let mut own = BTreeMap::new();
    let mut used = String::new();
    let pattern = recorded::paths("custom");
    for (group, version) in super::versions(catalog) {
        let lines = recorded::paths(&place(group, version));
        for (path, item) in recorded::index(&lines).into_iter().filter(|(path, _)| served_path(catalog, path))
        {
            used.push_str(item);
            paths.insert(path.to_owned(), path_item(item, true));
        }
        for served in catalog.resources(group, version).into_iter().flatten().filter(|served| served.custom) {
            for (path, item) in custom::paths(served, &pattern) {
                used.push_str(&item);
                paths.insert(path, path_item(&item, false));
            }
            if let Some(definition) = definitions(served) {
                for (name, schema) in custom::schemas(served, &definition, Dialect::V2) {
                    used.push_str(&schema.to_string());
                    own.insert(name, older(schema).to_string());
                }
            }
        }
    }
    let lines = recorded::schemas();
    let all = recorded::index(&lines);
    let reached = recorded::reachable(&all, std::iter::once(used.as_str()));
    let builtin = reached
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), definition(catalog, name, all.get(name)?))));
    let mut schemas: BTreeMap<String, String> = builtin.collect();
    schemas.extend(own);
    assemble(&paths, &schemas)
}

fn assemble(paths: &BTreeMap<String, String>, schemas: &BTreeMap<String, String>) -> String {
    let mut text = String::from(
        "{\"swagger\":\"2.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":\"1.36\"},\"paths\":{",
    );
    members(&mut text, paths.iter().map(|(path, item)| (path.as_str(), item.as_str())));
    text.push_str("},\"definitions\":{");
    members(&mut text, schemas.iter().map(|(name, schema)| (name.as_str(), schema.as_str())));
    let scheme = json!({"BearerToken": {
        "description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header",
    }});
    text.push_str(&format!("}},\"securityDefinitions\":{scheme},\"security\":[{{\"BearerToken\":[]}}]}}"));
    text
}

/// A recorded schema in the older form.
fn definition(catalog: &Catalog, name: &str, schema: &str) -> String {
    let mut schema = older(serde_json::from_str(schema).unwrap_or_default());
    if let ([QUANTITY, _] | [_, INT_OR_STRING], Some(map)) = ([name, name], schema.as_object_mut()) {
        map.remove("oneOf");
        map.insert("type".into(), "string".into());
    }
    match GROUPED.iter().find(|(grouped, _)| *grouped == name) {
        None => schema.to_string(),
        Some((_, kind)) => {
            let builtin = |(group, version): &(&str, &str)| {
                catalog.resources(group, version).is_some_and(|mut all| all.any(|served| !served.custom))
            };
            let kinds = super::versions(catalog).into_iter().filter(builtin);
            let kinds =
                kinds.map(|(group, version)| json!({"group": group, "version": version, "kind": kind}));
            with_kinds(&schema.to_string(), kinds.collect())
        }
    }
}

/// A schema in the older form: without defaults, and with bare references.
fn older(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut kept = Map::new();
            for (field, value) in map {
                match field.as_str() {
                    "default" => {}
                    "$ref" => {
                        kept.insert(field, reference(&value));
                    }
                    "allOf" if single(&value).is_some() => {
                        kept.insert("$ref".into(), single(&value).map(reference).unwrap_or_default());
                    }
                    "properties" => {
                        let all = value.as_object().cloned().unwrap_or_default();
                        kept.insert(
                            field,
                            all.into_iter().map(|(name, below)| (name, older(below))).collect(),
                        );
                    }
                    "enum" | "required" | "example" => {
                        kept.insert(field, value);
                    }
                    _ => {
                        kept.insert(field, older(value));
                    }
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.into_iter().map(older).collect(),
        other => other,
    }
}

/// The reference in a list of one reference.
fn single(all: &Value) -> Option<&Value> {
    match all.as_array()?.as_slice() {
        [one] => one.get("$ref"),
        _ => None,
    }
}

fn reference(value: &Value) -> Value {
    value.as_str().unwrap_or_default().replace("#/components/schemas/", "#/definitions/").into()
}

/// A path in the older form.
fn path_item(item: &str, builtin: bool) -> String {
    let item: Value = serde_json::from_str(item).unwrap_or_default();
    let mut older = Map::new();
    for (method, operation) in item.as_object().into_iter().flatten() {
        let value = match method.as_str() {
            "parameters" => operation.as_array().into_iter().flatten().map(parameter).collect(),
            _ => self::operation(operation, builtin),
        };
        older.insert(method.clone(), value);
    }
    Value::Object(older).to_string()
}

fn media_types(content: Option<&Value>) -> Vec<String> {
    content.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

fn first_schema(content: Option<&Value>) -> Option<Value> {
    let content = content?.as_object()?.values().next()?;
    content.get("schema").cloned().map(older)
}

fn operation(operation: &Value, builtin: bool) -> Value {
    let mut older = Map::new();
    let mut parameters: Vec<Value> = Vec::new();
    let body = operation.get("requestBody");
    if let (Some(body), Some(schema)) = (body, first_schema(body.and_then(|body| body.get("content")))) {
        let required = body.get("required").and_then(Value::as_bool).unwrap_or(false);
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if let (true, Some(map)) = (required, parameter.as_object_mut()) {
            map.insert("required".into(), true.into());
        }
        parameters.push(parameter);
    }
    let given = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
    parameters.extend(given.map(parameter));
    let consumes = match media_types(body.and_then(|body| body.get("content"))) {
        all if !all.is_empty() => all,
        _ if builtin => vec!["*/*".into()],
        _ => vec!["application/json".into(), "application/yaml".into()],
    };
    let produces = media_types(operation.pointer("/responses/200/content"));
    for (field, value) in operation.as_object().into_iter().flatten() {
        match field.as_str() {
            "requestBody" | "parameters" => {}
            "responses" => {
                let all = value.as_object().cloned().unwrap_or_default();
                older
                    .insert(field.clone(), all.iter().map(|(code, r)| (code.clone(), response(r))).collect());
            }
            _ => {
                older.insert(field.clone(), value.clone());
            }
        }
    }
    older.insert("schemes".into(), json!(["https"]));
    older.insert("consumes".into(), consumes.into());
    if !produces.is_empty() {
        older.insert("produces".into(), produces.into());
    }
    if !parameters.is_empty() {
        older.insert("parameters".into(), parameters.into());
    }
    Value::Object(older)
}

fn response(response: &Value) -> Value {
    let mut older = json!({"description": response.get("description")});
    if let (Some(schema), Some(map)) = (first_schema(response.get("content")), older.as_object_mut()) {
        map.insert("schema".into(), schema);
    }
    older
}

/// A parameter has its type in itself.
fn parameter(parameter: &Value) -> Value {
    let mut older = parameter.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(schema)) = older.remove("schema") {
        older.extend(schema);
    }
    Value::Object(older)
}
