//! `trainyard explain`: what manifests become, without a cluster.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use trainyard_core::explain::{Explanation, explain};
use trainyard_core::{Catalog, Kind, Options};

use crate::manifests::{self, Manifest};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Manifest files; `-` is standard input.
    #[arg(required = true)]
    files: Vec<String>,
    /// Domain appended to service host names.
    #[arg(long, env = "CUSTOM_CLUSTER_DOMAIN")]
    cluster_domain: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let catalog = Catalog::default();
    let options = Options { cluster_domain: args.cluster_domain.clone(), ..Options::default() };
    let mut failed = false;
    for file in &args.files {
        for manifest in manifests::read(file)? {
            let kind = known_kind(&catalog, &manifest)?;
            let mut explained = explain(&catalog, kind, &manifest.object, &options);
            // What the engine says is clearer than what a schema can say about the same field.
            let mut more = trainyard_host::schema::errors(kind, &manifest.object)?;
            more.retain(|error| explained.errors.iter().all(|known| known.path != error.path));
            explained.errors.extend(more);
            failed |= !explained.errors.is_empty();
            show(&manifest, &explained)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn known_kind(catalog: &Catalog, manifest: &Manifest) -> anyhow::Result<&'static Kind> {
    let name = manifest.kind()?;
    let known: Vec<&str> = catalog.kinds.iter().map(|kind| kind.name).collect();
    let Some(kind) = catalog.kind(name) else {
        bail!(
            "{}: kind: Unsupported value: \"{name}\": known kinds are {}",
            manifest.origin,
            known.join(", ")
        );
    };
    let version = manifest.object.get("apiVersion").and_then(|v| v.as_str()).unwrap_or_default();
    if version != kind.api_version() {
        bail!(
            "{}: apiVersion: Unsupported value: \"{version}\": {name} is {}",
            manifest.origin,
            kind.api_version()
        );
    }
    Ok(kind)
}

fn show(manifest: &Manifest, explained: &Explanation) -> anyhow::Result<()> {
    let subject = manifest.subject();
    for error in &explained.errors {
        crate::complain(&format!("{subject}: {error}"));
    }
    if !explained.errors.is_empty() {
        return Ok(());
    }
    let count = |kind: &str| explained.children.iter().filter(|child| child.what.kind == kind).count();
    let mut text = format!("# {subject}: {} pod(s), {} service(s)\n", count("Pod"), count("Service"));
    for note in &explained.notes {
        writeln!(text, "# {note}")?;
    }
    for child in &explained.children {
        writeln!(text, "---\n{}", serde_saphyr::to_string(&child.body)?.trim_end())?;
    }
    crate::print(&text)
}
