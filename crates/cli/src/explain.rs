//! `trainyard explain`: what manifests become, without a cluster.

use std::fmt::Write as _;
use std::process::ExitCode;

use trainyard_core::explain::Explanation;
use trainyard_core::{Catalog, Options};

use crate::check;
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
            let kind = check::job_kind(&catalog, &manifest)?;
            let explained = check::explained(&catalog, kind, &manifest.object, &options)?;
            failed |= !explained.errors.is_empty();
            show(&manifest, &explained)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
