//! Reading manifests: files or standard input, YAML or JSON, several documents each, lists taken apart.

use std::io::Read as _;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// One document of a manifest file.
pub(crate) struct Manifest {
    /// Where it stands, for messages.
    pub(crate) origin: String,
    /// The object.
    pub(crate) object: Value,
}

impl Manifest {
    fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer).and_then(Value::as_str)
    }

    /// `kind`, or what is wrong with it.
    pub(crate) fn kind(&self) -> anyhow::Result<&str> {
        self.text("/kind").with_context(|| format!("{}: kind: Required value: what is it?", self.origin))
    }

    /// `file: TFJob namespace/name`.
    pub(crate) fn subject(&self) -> String {
        let namespace = self.text("/metadata/namespace").unwrap_or("default");
        let name = self.text("/metadata/name").unwrap_or("(no name)");
        format!("{}: {} {namespace}/{name}", self.origin, self.text("/kind").unwrap_or("(no kind)"))
    }
}

/// Reads every document of a file; `-` is standard input.
pub(crate) fn read(path: &str) -> anyhow::Result<Vec<Manifest>> {
    let mut text = String::new();
    if path == "-" {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    }
    let documents: Vec<Value> =
        trainyard_host::yaml::documents(&text).with_context(|| format!("{path} is not YAML"))?;
    let documents: Vec<Value> = documents.into_iter().filter(|value| !value.is_null()).collect();
    let several = documents.len() > 1;
    let numbered = documents.into_iter().enumerate().map(|(i, object)| {
        let origin = if several { format!("{path} (document {})", i + 1) } else { path.to_owned() };
        Manifest { origin, object }
    });
    let manifests: Vec<Manifest> = numbered.flat_map(flat).collect();
    if manifests.is_empty() {
        bail!("{path} holds no document: write a job into it, see the examples");
    }
    Ok(manifests)
}

/// The items of a `List`, which is how kubectl prints several objects; anything else is itself.
fn flat(manifest: Manifest) -> Vec<Manifest> {
    if manifest.text("/kind") != Some("List") {
        return vec![manifest];
    }
    let Manifest { origin, mut object } = manifest;
    let items = match object.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        Some(_) | None => Vec::new(),
    };
    let numbered = items.into_iter().enumerate();
    numbered.map(|(i, object)| Manifest { origin: format!("{origin} (items[{i}])"), object }).collect()
}
