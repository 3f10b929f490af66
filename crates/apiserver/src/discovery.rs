//! What clients ask before they ask for anything: versions, groups, resources, health.

use serde_json::{Value, json};

use crate::app::App;
use crate::extension::ExtensionResource;
use crate::http::Page;
use crate::registry::{Catalog, Served};

/// The Kubernetes version whose behaviour is served.
const MINOR: &str = "34";

pub(crate) enum Answer {
    Text(&'static str),
    /// What is missing.
    NotReady(String),
    Json(Value),
}

pub(crate) fn answer(app: &App, page: &Page) -> Option<Answer> {
    let catalog = &app.catalog();
    Some(match page {
        Page::Live => Answer::Text("ok"),
        Page::Ready => (app.ready)().map_or_else(Answer::NotReady, |()| Answer::Text("ok")),
        Page::Version => Answer::Json(version()),
        Page::CoreVersions => Answer::Json(json!({
            "kind": "APIVersions", "versions": catalog.versions(""), "serverAddressByClientCIDRs": [],
        })),
        Page::Groups => Answer::Json(json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": catalog.groups().into_iter().map(|name| group(catalog, name)).collect::<Vec<_>>(),
        })),
        Page::Group(name) => {
            catalog.groups().contains(name.as_str()).then_some(())?;
            let mut group = group(catalog, name);
            if let Some(map) = group.as_object_mut() {
                map.insert("kind".into(), "APIGroup".into());
                map.insert("apiVersion".into(), "v1".into());
            }
            Answer::Json(group)
        }
        Page::Resources { group, version } => Answer::Json(resources(catalog, group, version)?),
    })
}

fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+trainyard"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn group(catalog: &Catalog, name: &str) -> Value {
    let versions: Vec<Value> = catalog
        .versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let own = catalog.resources(group, version).map(|all| all.flat_map(|served| entries(served)));
    let extension = catalog.extensions().iter().filter(|e| e.group == group && e.version == version);
    let mut extension = extension.peekable();
    if own.is_none() && extension.peek().is_none() {
        return None;
    }
    let extended = extension.flat_map(|extension| extension.resources.iter().map(line));
    let resources: Vec<Value> = own.into_iter().flatten().chain(extended).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    }))
}

/// A resource that somebody else serves.
fn line(resource: &ExtensionResource) -> Value {
    json!({
        "name": resource.name, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs,
    })
}

/// A resource and its subresources.
fn entries(served: &Served) -> Vec<Value> {
    let mut verbs = vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    verbs.retain(|verb| !served.one_by_one || *verb != "deletecollection");
    verbs.retain(|verb| !served.review || *verb == "create");
    let mut main = json!({
        "name": served.plural, "singularName": served.singular, "namespaced": served.namespaced,
        "kind": served.kind, "verbs": verbs,
    });
    if let Some(map) = main.as_object_mut() {
        for (field, names) in [("shortNames", &served.short_names), ("categories", &served.categories)] {
            if !names.is_empty() {
                map.insert(field.into(), names.clone().into());
            }
        }
    }
    let mut all = vec![main];
    let mut sub = |name: &str, kind: &str, verbs: &[&str], of: Option<(&str, &str)>| {
        let mut entry = json!({
            "name": format!("{}/{name}", served.plural), "singularName": "", "namespaced": served.namespaced,
            "kind": kind, "verbs": verbs,
        });
        if let (Some((group, version)), Some(map)) = (of, entry.as_object_mut()) {
            map.insert("group".into(), group.into());
            map.insert("version".into(), version.into());
        }
        all.push(entry);
    };
    if served.status {
        sub("status", &served.kind, &["get", "patch", "update"], None);
    }
    if served.scale.is_some() {
        sub("scale", "Scale", &["get", "patch", "update"], Some(("autoscaling", "v1")));
    }
    if served.is_core("pods") {
        sub("binding", "Binding", &["create"], None);
        sub("eviction", "Eviction", &["create"], Some(("policy", "v1")));
        sub("log", "Pod", &["get"], None);
    }
    if served.is_core("namespaces") {
        sub("finalize", "Namespace", &["update"], None);
    }
    all
}
