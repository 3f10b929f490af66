//! What is wrong with manifests, all of it, before anything is sent anywhere.

use std::collections::BTreeSet;

use serde_json::Value;
use trainyard_core::explain::{Explanation, explain};
use trainyard_core::{Catalog, Kind, Options};

use crate::manifests::Manifest;

/// Everything that is wrong: one line each, with file, object, field and what to do.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub(crate) Vec<String>);

impl Errors {
    /// Says them all.
    pub(crate) fn complain(&self) {
        self.0.iter().for_each(|error| crate::complain(error));
    }
}

/// Checks every document: jobs by the rules of the engine and of their definition, others for what any object needs.
pub(crate) fn check(manifests: &[Manifest]) -> Result<(), Errors> {
    let catalog = Catalog::default();
    let mut errors = Vec::new();
    for manifest in manifests {
        match problems(&catalog, manifest) {
            Ok(found) => errors.extend(found),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Errors(errors)) }
}

fn problems(catalog: &Catalog, manifest: &Manifest) -> anyhow::Result<Vec<String>> {
    let subject = manifest.subject();
    let name = manifest.kind()?;
    let text = |pointer: &str| manifest.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    if text("/apiVersion").is_empty() {
        found.push(format!("{subject}: apiVersion: Required value: for example \"v1\""));
    }
    if text("/metadata/name").is_empty() {
        found.push(format!("{subject}: metadata.name: Required value: what is it called?"));
    }
    if let Some(kind) = catalog.kind(name).filter(|kind| is_meant(kind, text("/apiVersion"))) {
        let explained = explained(catalog, kind, &manifest.object, &Options::default())?;
        let mut said = BTreeSet::new();
        // The first thing that is wrong with a field is enough; the next often follows from it.
        let first = explained.errors.iter().filter(|error| said.insert(error.path.clone()));
        found.extend(first.map(|error| format!("{subject}: {error}")));
    } else if let Some(kind) = catalog.kind(name).filter(|kind| is_slip(kind, text("/apiVersion"))) {
        found.push(version_error(manifest, kind, text("/apiVersion")));
    }
    Ok(found)
}

/// Another group may have a kind of the same name; another version of our group is a slip.
fn is_slip(kind: &Kind, api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == kind.group)
}

fn is_meant(kind: &Kind, api_version: &str) -> bool {
    api_version == kind.api_version()
}

fn version_error(manifest: &Manifest, kind: &Kind, version: &str) -> String {
    let (origin, name) = (&manifest.origin, kind.name);
    format!("{origin}: apiVersion: Unsupported value: \"{version}\": {name} is {}", kind.api_version())
}

/// What a job becomes, or everything that is wrong with it.
pub(crate) fn explained(
    catalog: &Catalog,
    kind: &'static Kind,
    object: &Value,
    options: &Options,
) -> anyhow::Result<Explanation> {
    let mut explained = explain(catalog, kind, object, options);
    // What the engine says is clearer than what a schema can say about the same field.
    let mut more = trainyard_host::schema::errors(kind, object)?;
    more.retain(|error| explained.errors.iter().all(|known| known.path != error.path));
    explained.errors.extend(more);
    Ok(explained)
}

/// The job kind of a manifest, or what to write instead.
pub(crate) fn job_kind(catalog: &Catalog, manifest: &Manifest) -> anyhow::Result<&'static Kind> {
    let name = manifest.kind()?;
    let Some(kind) = catalog.kind(name) else {
        let known: Vec<&str> = catalog.kinds.iter().map(|kind| kind.name).collect();
        let (origin, known) = (&manifest.origin, known.join(", "));
        anyhow::bail!("{origin}: kind: Unsupported value: \"{name}\": known kinds are {known}");
    };
    let version = manifest.object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if !is_meant(kind, version) {
        anyhow::bail!(version_error(manifest, kind, version));
    }
    Ok(kind)
}
