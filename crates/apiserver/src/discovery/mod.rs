//! What clients ask before they ask for anything: versions, groups, resources, health.

mod aggregated;
mod health;
mod resources;

use http::header::{HOST, IF_NONE_MATCH};
use http::request::Parts;
use serde_json::{Value, json};

use crate::app::App;
use crate::failure::Failure;
use crate::http::negotiate::Asked;
use crate::http::{Page, Query};
use crate::registry::{Catalog, Served};

/// The Kubernetes version whose behaviour is served.
const MINOR: &str = "36";
const PATCH: &str = "3";

/// The groups of a real server in its order; custom groups come after them.
const ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// A page, not yet a response.
pub(crate) enum Answer {
    Json(Value),
    /// One thing that is well.
    Well,
    /// Health: whether all is well, and what is said about it.
    Health {
        well: bool,
        text: String,
    },
    /// Everything there is in one document, which clients keep by its tag.
    Aggregated {
        etag: String,
        body: String,
    },
    /// The document a client has is the one there is.
    Unchanged {
        etag: String,
    },
}

/// What a page says; nothing when there is no such page.
pub(crate) fn answer(
    app: &App,
    page: &Page,
    (query, asked): (&Query, &Asked),
    request: &Parts,
) -> Result<Option<Answer>, Failure> {
    let catalog = &app.catalog();
    let headers = &request.headers;
    Ok(Some(match page {
        Page::Root => Answer::Json(paths(catalog)),
        Page::Health { probe, check } => return Ok(health::answer(app, probe, check.as_deref(), query)),
        Page::Version => {
            asked.check_produced(&["application/json"])?;
            Answer::Json(version())
        }
        Page::CoreVersions | Page::Groups if aggregated::is_asked_for(asked)? => {
            let document = aggregated::document(catalog, *page == Page::CoreVersions);
            let etag = aggregated::etag(&document);
            let known = headers.get_all(IF_NONE_MATCH).iter().any(|tag| tag.as_bytes() == etag.as_bytes());
            if known { Answer::Unchanged { etag } } else { Answer::Aggregated { etag, body: document } }
        }
        Page::CoreVersions => Answer::Json(json!({
            "kind": "APIVersions", "versions": catalog.versions(""), "serverAddressByClientCIDRs": address(request),
        })),
        Page::Groups => Answer::Json(json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": groups(catalog).into_iter().map(|name| group(catalog, name)).collect::<Vec<_>>(),
        })),
        Page::Group(name) => {
            if !catalog.groups().contains(name.as_str()) {
                return Ok(None);
            }
            let mut group = group(catalog, name);
            if let Some(map) = group.as_object_mut() {
                map.insert("kind".into(), "APIGroup".into());
                map.insert("apiVersion".into(), "v1".into());
            }
            Answer::Json(group)
        }
        Page::Resources { group, version } => match resources::list(catalog, group, version) {
            Some(list) => Answer::Json(list),
            None => return Ok(None),
        },
    }))
}

/// Whether a resource has a part of its own.
pub(crate) fn has_subresource(served: &Served, name: &str) -> bool {
    resources::parts(served).iter().any(|part| part.name == name)
}

/// Named groups in the order clients prefer them.
pub(super) fn groups(catalog: &Catalog) -> Vec<&str> {
    let mut groups: Vec<&str> = catalog.groups().into_iter().collect();
    groups.sort_by_key(|group| ORDER.iter().position(|known| known == group).unwrap_or(ORDER.len()));
    groups
}

/// Where the server can be reached: where this client reached it.
fn address(request: &Parts) -> Value {
    let authority = request.uri.authority().map(|authority| authority.as_str());
    let host = || request.headers.get(HOST).and_then(|host| host.to_str().ok());
    match authority.or_else(host) {
        Some(address) => json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]),
        None => json!([]),
    }
}

fn version() -> Value {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1", "minor": MINOR, "emulationMajor": "1", "emulationMinor": MINOR,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("v1.{MINOR}.{PATCH}+trainyard"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{machine}", std::env::consts::OS),
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

/// Every page there is, for people who look around.
fn paths(catalog: &Catalog) -> Value {
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
            .map(str::to_owned)
            .into();
    for group in catalog.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(catalog.versions(group).iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(health::paths());
    paths.sort_unstable();
    json!({"paths": paths})
}
