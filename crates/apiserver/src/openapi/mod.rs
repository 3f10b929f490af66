//! OpenAPI: what `kubectl explain` prints, and what clients check before they send.
//!
//! Built-in types were recorded from a real server and are cut to what is served; custom ones are made of their
//! definitions. Nothing of it is kept in memory: a document is made when it is asked for.

mod custom;
mod proto;
mod recorded;
mod v2;
mod v3;

use aws_lc_rs::digest;
use serde_json::{Value, json};
use std::fmt::Write;

use crate::app::App;
use crate::crd;
use crate::discovery::has_subresource;
use crate::object::at;
use crate::registry::{Catalog, Served};

/// Finds the version of a definition that a resource was made from.
type Definitions<'a> = dyn Fn(&Served) -> Option<Value> + 'a;

/// Every version that is served here, the core group's first.
fn versions(catalog: &Catalog) -> Vec<(&str, &str)> {
    let groups = std::iter::once("").chain(catalog.groups());
    let all =
        groups.flat_map(|group| catalog.versions(group).into_iter().map(move |version| (group, version)));
    all.filter(|(group, version)| catalog.resources(group, version).is_some()).collect()
}

/// Whether a recorded path is served: the resource is, and the subresource if it is one's.
fn served_path(catalog: &Catalog, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return false,
    };
    let rest = match rest {
        ["namespaces", "{namespace}", rest @ ..] => rest,
        rest => rest,
    };
    let served = |plural: &str| catalog.get(group, version, plural);
    match rest {
        [] => true,
        [plural] | [plural, "{name}"] => served(plural).is_some(),
        [plural, "{name}", part] => served(plural).is_some_and(|served| has_subresource(served, part)),
        _ => false,
    }
}

fn definition(app: &App, served: &Served) -> Option<Value> {
    let object = app.store.get(&crd::key(&served.table)?)?.value().ok()?;
    let versions = at(&object, "spec.versions")?.as_array()?;
    versions
        .iter()
        .find(|version| version.get("name").and_then(Value::as_str) == Some(&served.version))
        .cloned()
}

/// A name for a document: it changes whenever the document does.
fn hash(catalog: &Catalog, versions: &[(&str, &str)]) -> String {
    let mut context = digest::Context::new(&digest::SHA512);
    context.update(recorded::bytes());
    for (group, version) in versions {
        for served in catalog.resources(group, version).into_iter().flatten() {
            let facts = (&served.group, &served.version, &served.plural, &served.kind, &served.list_kind);
            let more = (
                served.namespaced,
                served.status,
                served.scale.is_some(),
                served.schema_hash,
                &served.fields,
            );
            context.update(format!("{facts:?}{more:?}").as_bytes());
        }
    }
    let mut name = String::new();
    for byte in context.finish().as_ref() {
        // Writing to a text cannot fail.
        let _ = write!(name, "{byte:02X}");
    }
    name
}

/// The list of v3 documents, with addresses that never mean another document.
pub(crate) fn root(app: &App) -> Value {
    let catalog = app.catalog();
    let paths = versions(&catalog).into_iter().map(|(group, version)| {
        let place = v3::place(group, version);
        let url = format!("/openapi/v3/{place}?hash={}", hash(&catalog, &[(group, version)]));
        (place, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Value>()})
}

/// The hash of a v3 document; nothing when there is none of this version.
pub(crate) fn v3_hash(app: &App, group: &str, version: &str) -> Option<String> {
    let catalog = app.catalog();
    let is_served = catalog.resources(group, version).is_some();
    is_served.then(|| hash(&catalog, &[(group, version)]))
}

pub(crate) fn v3(app: &App, group: &str, version: &str) -> Option<String> {
    v3::document(&app.catalog(), &|served| definition(app, served), group, version)
}

/// A v3 document as protobuf.
pub(crate) fn v3_protobuf(document: &str) -> Vec<u8> {
    proto::v3(&serde_json::from_str(document).unwrap_or_default())
}

/// A v2 document as protobuf.
pub(crate) fn v2_protobuf(document: &str) -> Vec<u8> {
    proto::v2(&serde_json::from_str(document).unwrap_or_default())
}

pub(crate) fn v2_hash(app: &App) -> String {
    let catalog = app.catalog();
    hash(&catalog, &versions(&catalog))
}

pub(crate) fn v2(app: &App) -> String {
    v2::document(&app.catalog(), &|served| definition(app, served))
}
