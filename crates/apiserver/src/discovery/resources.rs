//! What can be done with each resource: the one list behind both forms of discovery.

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::extension::ExtensionResource;
use crate::registry::{Catalog, Served};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The same in the order custom resources have them.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const CHANGES: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const CONNECT: &[&str] = &["create", "get"];

/// Subresources of built-in resources beside `status` and `scale`: group, plural, and what is there.
const SUBRESOURCES: &[(&str, &str, Part<'static>)] = &[
    ("", "namespaces", Part { name: "finalize", kind: "Namespace", of: None, verbs: &["update"] }),
    ("", "pods", Part { name: "attach", kind: "PodAttachOptions", of: None, verbs: CONNECT }),
    ("", "pods", Part { name: "binding", kind: "Binding", of: None, verbs: CREATE }),
    ("", "pods", Part { name: "eviction", kind: "Eviction", of: Some(("policy", "v1")), verbs: CREATE }),
    ("", "pods", Part { name: "exec", kind: "PodExecOptions", of: None, verbs: CONNECT }),
    ("", "pods", Part { name: "log", kind: "Pod", of: None, verbs: &["get"] }),
    ("", "pods", Part { name: "portforward", kind: "PodPortForwardOptions", of: None, verbs: CONNECT }),
    (
        "",
        "serviceaccounts",
        Part {
            name: "token",
            kind: "TokenRequest",
            of: Some(("authentication.k8s.io", "v1")),
            verbs: CREATE,
        },
    ),
];

/// One subresource.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    /// Group and version of its kind, where they are not the resource's.
    pub(super) of: Option<(&'a str, &'a str)>,
    pub(super) verbs: &'a [&'a str],
}

/// One resource of a version.
pub(super) struct Entry<'a> {
    pub(super) plural: &'a str,
    pub(super) singular: &'a str,
    pub(super) kind: &'a str,
    /// Group and version of a custom kind; built-in ones leave them to the reader.
    pub(super) of: Option<(&'a str, &'a str)>,
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<&'a str>,
    pub(super) short_names: &'a [String],
    pub(super) categories: &'a [String],
    storage_hash: Option<String>,
    pub(super) parts: Vec<Part<'a>>,
}

/// The resources of a version; nothing when it is not served.
pub(super) fn entries<'a>(catalog: &'a Catalog, group: &str, version: &str) -> Option<Vec<Entry<'a>>> {
    let own = catalog.resources(group, version).map(|all| all.map(|served| Entry::of(served)));
    let mut others =
        catalog.extensions().iter().filter(|e| e.group == group && e.version == version).peekable();
    if own.is_none() && others.peek().is_none() {
        return None;
    }
    let others = others.flat_map(|extension| extension.resources.iter().map(Entry::of_extension));
    Some(own.into_iter().flatten().chain(others).collect())
}

impl<'a> Entry<'a> {
    fn of(served: &'a Served) -> Self {
        let mut verbs = if served.custom { CUSTOM_VERBS.to_vec() } else { VERBS.to_vec() };
        verbs.retain(|verb| !served.one_by_one || *verb != "deletecollection");
        verbs.retain(|verb| !served.review || *verb == "create");
        Self {
            plural: &served.plural,
            singular: &served.singular,
            kind: &served.kind,
            of: served.custom.then_some((&served.group, &served.version)),
            namespaced: served.namespaced,
            verbs,
            short_names: &served.short_names,
            categories: &served.categories,
            storage_hash: (!served.review).then(|| storage_hash(storage_version(served), &served.kind)),
            parts: parts(served),
        }
    }

    fn of_extension(resource: &'a ExtensionResource) -> Self {
        Self {
            plural: &resource.name,
            singular: &resource.singular,
            kind: &resource.kind,
            of: None,
            namespaced: resource.namespaced,
            verbs: resource.verbs.iter().map(String::as_str).collect(),
            short_names: &[],
            categories: &[],
            storage_hash: None,
            parts: Vec::new(),
        }
    }
}

/// The subresources: by name for built-in resources, status first for custom ones.
pub(super) fn parts(served: &Served) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    if served.status {
        let of = served.custom.then_some((served.group.as_str(), served.version.as_str()));
        parts.push(Part { name: "status", kind: &served.kind, of, verbs: CHANGES });
    }
    if served.scale.is_some() {
        parts.push(Part { name: "scale", kind: "Scale", of: Some(("autoscaling", "v1")), verbs: CHANGES });
    }
    if !served.custom {
        let own = SUBRESOURCES.iter().filter(|(g, p, _)| *g == served.group && *p == served.plural);
        parts.extend(own.map(|(_, _, part)| *part));
        parts.sort_by_key(|part| part.name);
    }
    parts
}

/// What a resource is stored as. A real server keeps definitions in the version it began with, and clients compare.
fn storage_version(served: &Served) -> &str {
    if served.is_crd() { "apiextensions.k8s.io/v1beta1" } else { &served.storage_version }
}

/// Tells clients when objects are stored in another version than before.
fn storage_hash(storage_version: &str, kind: &str) -> String {
    let (group, version) = storage_version.split_once('/').unwrap_or(("", storage_version));
    let hash = digest::digest(&digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    BASE64_STANDARD.encode(hash.as_ref().get(..8).unwrap_or_default())
}

/// The resources of a version as a list of their own.
pub(super) fn list(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let entries = entries(catalog, group, version)?;
    let resources: Vec<Value> = entries.iter().flat_map(lines).collect();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
    // The oldest list of all was there before it had a version.
    if let (Some(map), false) = (list.as_object_mut(), group.is_empty()) {
        map.insert("apiVersion".into(), "v1".into());
        map.insert("groupVersion".into(), format!("{group}/{version}").into());
    }
    Some(list)
}

fn lines(entry: &Entry<'_>) -> Vec<Value> {
    let mut main = json!({
        "name": entry.plural, "singularName": entry.singular, "namespaced": entry.namespaced,
        "kind": entry.kind, "verbs": entry.verbs,
    });
    if let Some(map) = main.as_object_mut() {
        for (field, names) in [("shortNames", entry.short_names), ("categories", entry.categories)] {
            if !names.is_empty() {
                map.insert(field.into(), names.into());
            }
        }
        if let Some(hash) = &entry.storage_hash {
            map.insert("storageVersionHash".into(), hash.as_str().into());
        }
    }
    let subresources = entry.parts.iter().map(|part| {
        let mut line = json!({
            "name": format!("{}/{}", entry.plural, part.name), "singularName": "",
            "namespaced": entry.namespaced, "kind": part.kind, "verbs": part.verbs,
        });
        if let (Some((group, version)), Some(map)) =
            (part.of.filter(|of| Some(*of) != entry.of), line.as_object_mut())
        {
            map.insert("group".into(), group.into());
            map.insert("version".into(), version.into());
        }
        line
    });
    std::iter::once(main).chain(subresources).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_a_real_server() {
        assert_eq!(storage_hash("v1", "Pod"), "xPOwRZ+Yhw8=");
        assert_eq!(storage_hash("apps/v1", "Deployment"), "8aSe+NMegvE=");
        assert_eq!(storage_hash("wire.example.com/v1", "Frog"), "JR2JTK3h65M=");
    }
}
