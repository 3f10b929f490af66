//! Everything that is served in one document: what saves kubectl a request for each group.

use aws_lc_rs::digest;
use serde_json::{Value, json};
use std::fmt::Write;

use super::resources::{Entry, Part, entries};
use crate::failure::Failure;
use crate::http::negotiate::{Asked, Encoding, MEDIA};
use crate::registry::Catalog;

/// Whether the best form a client accepts is this one. Forms that are not known are passed over.
pub(super) fn is_asked_for(asked: &Asked) -> Result<bool, Failure> {
    let this = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2");
    // There is no such document in other forms than JSON, so those do not count.
    let json = |encoding| matches!(encoding, Encoding::Json | Encoding::Pretty);
    let choice =
        asked.choose(|encoding, target| json(encoding) && target.is_none_or(|target| target == this));
    match choice.or_else(|| asked.choose(|_, target| target.is_none())) {
        Some(choice) => Ok(choice.target.is_some()),
        None => Err(Failure::not_acceptable(MEDIA)),
    }
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
    use crate::http::Query;
    use http::HeaderMap;
    use http::header::ACCEPT;

    #[test]
    fn the_first_form_that_is_known_decides() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, expected) in [
            (format!("{new},{old},application/json"), Some(true)),
            (format!("{old},application/json"), Some(false)),
            (format!("application/json,{new}"), Some(false)),
            (format!("application/vnd.kubernetes.protobuf,{new}"), Some(true)),
            ("application/vnd.kubernetes.protobuf".into(), Some(false)),
            ("*/*".into(), Some(false)),
            (old.into(), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let asked = Asked::of(&headers, &Query::default());
            assert_eq!(is_asked_for(&asked).ok(), expected, "{accept}");
        }
    }
}
