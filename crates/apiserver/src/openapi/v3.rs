//! The OpenAPI v3 document of one API version.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::custom::{self, Dialect};
use super::{Definitions, recorded, served_path};
use crate::registry::{Catalog, Served};

/// Schemas that name the groups they are used in.
pub(super) const GROUPED: [(&str, &str); 2] = [
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "DeleteOptions"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", "WatchEvent"),
];

/// `api/v1`, `apis/apps/v1`.
pub(super) fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The document; nothing when the version is not served.
pub(super) fn document(
    catalog: &Catalog,
    definitions: &Definitions<'_>,
    group: &str,
    version: &str,
) -> Option<String> {
    let resources: Vec<&Served> = catalog.resources(group, version)?.map(|served| &**served).collect();
    let builtin = resources.iter().any(|served| !served.custom);
    let recorded_paths = if builtin { recorded::paths(&place(group, version)) } else { String::new() };
    let pattern = if builtin { String::new() } else { recorded::paths("custom") };
    let mut paths: BTreeMap<String, String> = recorded::index(&recorded_paths)
        .into_iter()
        .filter(|(path, _)| served_path(catalog, path))
        .map(|(path, item)| (path.to_owned(), item.to_owned()))
        .collect();
    let lines = recorded::schemas();
    let builtin_schemas = recorded::index(&lines);
    let mut own = BTreeMap::new();
    for served in resources.iter().filter(|served| served.custom) {
        paths.extend(custom::paths(served, &pattern));
        if let Some(definition) = definitions(served) {
            own.extend(custom::schemas(served, &definition, Dialect::V3).map(|(n, s)| (n, s.to_string())));
        }
    }
    let texts = paths.values().chain(own.values()).map(String::as_str);
    let reached = recorded::reachable(&builtin_schemas, texts);
    let mut schemas: BTreeMap<&str, String> = reached
        .into_iter()
        .filter_map(|name| Some((name, with_groups(name, builtin_schemas.get(name)?, group, version))))
        .collect();
    schemas.extend(own.iter().map(|(name, schema)| (name.as_str(), schema.clone())));
    Some(assemble(&paths, &schemas, builtin))
}

/// Adds the kinds a schema stands for where they depend on who asks.
fn with_groups(name: &str, schema: &str, group: &str, version: &str) -> String {
    let Some((_, kind)) = GROUPED.iter().find(|(grouped, _)| *grouped == name) else {
        return schema.to_owned();
    };
    let mut kinds = vec![json!({"group": "", "version": "v1", "kind": kind})];
    if !group.is_empty() {
        kinds.push(json!({"group": group, "version": version, "kind": kind}));
    }
    with_kinds(schema, kinds)
}

pub(super) fn with_kinds(schema: &str, kinds: Vec<Value>) -> String {
    let open = schema.strip_suffix('}').unwrap_or(schema);
    format!("{open},\"x-kubernetes-group-version-kind\":{}}}", Value::from(kinds))
}

fn assemble(paths: &BTreeMap<String, String>, schemas: &BTreeMap<&str, String>, builtin: bool) -> String {
    let size = paths.values().map(|p| p.len() + 80).sum::<usize>()
        + schemas.values().map(|s| s.len() + 80).sum::<usize>();
    let mut text = String::with_capacity(size + 512);
    let info = match builtin {
        true => json!({"title": "Kubernetes", "version": "1.36"}),
        false => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
    };
    text.push_str(&format!("{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{{"));
    members(&mut text, paths.iter().map(|(path, item)| (path.as_str(), item.as_str())));
    text.push_str("},\"components\":{\"schemas\":{");
    members(&mut text, schemas.iter().map(|(name, schema)| (*name, schema.as_str())));
    text.push('}');
    if builtin {
        let scheme = json!({"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        }});
        text.push_str(&format!(",\"securitySchemes\":{scheme}"));
    }
    text.push_str("}}");
    text
}

/// Writes members of a JSON object whose values are texts already.
pub(super) fn members<'a>(text: &mut String, members: impl Iterator<Item = (&'a str, &'a str)>) {
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
    }
}
