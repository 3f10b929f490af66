//! Everything that is served in one document: what saves kubectl a request for each group.

use aws_lc_rs::digest;
use serde_json::{Value, json};
use std::fmt::Write;

use super::resources::{Entry, Part, entries};
use crate::failure::Failure;
use crate::registry::Catalog;

/// Whether the first form a client accepts is this one. Forms that are not known are passed over.
pub(super) fn is_asked_for(accept: &str) -> Result<bool, Failure> {
    for media in accept.split(',') {
        let mut parts = media.split(';').map(str::trim);
        if !["application/json", "application/*", "*/*", ""].contains(&parts.next().unwrap_or_default()) {
            continue;
        }
        let (mut kind, mut group, mut version) = ("", "", "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "as" => kind = value,
                "g" => group = value,
                "v" => version = value,
                _ => {}
            }
        }
        match (kind, group, version) {
            ("", _, _) => return Ok(false),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Ok(true),
            _ => {}
        }
    }
    Err(Failure::not_acceptable("application/json, application/yaml, application/vnd.kubernetes.protobuf"))
}

/// The core group, or all others.
pub(super) fn document(catalog: &Catalog, core: bool) -> String {
    let groups = if core { vec![""] } else { super::groups(catalog) };
    let items: Vec<Value> = groups.into_iter().map(|name| group(catalog, name)).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    list.to_string()
}

/// A name for exactly this document.
pub(super) fn etag(document: &str) -> String {
    let hash = digest::digest(&digest::SHA512, document.as_bytes());
    let mut tag = String::from("\"");
    for byte in hash.as_ref() {
        // Writing to a text cannot fail.
        let _ = write!(tag, "{byte:02X}");
    }
    tag.push('"');
    tag
}

fn group(catalog: &Catalog, name: &str) -> Value {
    let versions: Vec<Value> = catalog
        .versions(name)
        .into_iter()
        .map(|version| {
            let resources = entries(catalog, name, version).unwrap_or_default();
            let resources: Vec<Value> = resources.iter().map(resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn kind(of: Option<(&str, &str)>, kind: &str) -> Value {
    let (group, version) = of.unwrap_or_default();
    json!({"group": group, "version": version, "kind": kind})
}

fn resource(entry: &Entry<'_>) -> Value {
    let mut resource = json!({
        "resource": entry.plural, "responseKind": kind(entry.of, entry.kind),
        "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": entry.singular, "verbs": entry.verbs,
    });
    if let Some(map) = resource.as_object_mut() {
        for (field, names) in [("shortNames", entry.short_names), ("categories", entry.categories)] {
            if !names.is_empty() {
                map.insert(field.into(), names.into());
            }
        }
        if !entry.parts.is_empty() {
            map.insert("subresources".into(), entry.parts.iter().map(subresource).collect());
        }
    }
    resource
}

fn subresource(part: &Part<'_>) -> Value {
    json!({"subresource": part.name, "responseKind": kind(part.of, part.kind), "verbs": part.verbs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_known_decides() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, expected) in [
            (format!("{new},{old},application/json"), Some(true)),
            (format!("{old},application/json"), Some(false)),
            (format!("application/json,{new}"), Some(false)),
            (format!("application/vnd.kubernetes.protobuf,{new}"), Some(true)),
            ("*/*".into(), Some(false)),
            (old.into(), None),
        ] {
            assert_eq!(is_asked_for(&accept).ok(), expected, "{accept}");
        }
    }
}
