//! `trainyard deliver-kubectl`: brings a launcher the program it reaches its workers with, which is this one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

/// Between two looks at the workers.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the program goes.
    #[arg(long, env = "TARGET_DIR")]
    target_dir: PathBuf,
    /// The host file: the launcher does not start before its hosts run.
    #[arg(long)]
    hosts: Option<PathBuf>,
    /// After this many seconds it starts all the same: an elastic job works with those that are there.
    #[arg(long, default_value_t = 300)]
    patience: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let target = args.target_dir.join("kubectl");
    copy(&program, &target).with_context(|| format!("cannot write {}", target.display()))?;
    if let Some(file) = &args.hosts {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(until_all_run(hosts(&text), Duration::from_secs(args.patience)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// By another name first: a container that is started again finds either the whole file or none.
fn copy(program: &Path, target: &Path) -> std::io::Result<()> {
    let part = target.with_extension("part");
    std::fs::copy(program, &part)?;
    std::fs::rename(part, target)
}

/// The names in a host file, but for this pod's own.
fn hosts(text: &str) -> BTreeSet<String> {
    let own = std::env::var("HOSTNAME").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != own).map(str::to_owned).collect()
}

async fn until_all_run(hosts: BTreeSet<String>, patience: Duration) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(super::client().await?);
    let wait = async {
        let mut said = BTreeSet::new();
        loop {
            match running(&pods).await {
                Ok(running) => {
                    let missing: BTreeSet<String> = hosts.difference(&running).cloned().collect();
                    if missing.is_empty() {
                        return;
                    }
                    if missing != said {
                        let names: Vec<&str> = missing.iter().map(String::as_str).collect();
                        crate::complain(&format!("waiting for {}", names.join(", ")));
                        said = missing;
                    }
                }
                Err(error) => crate::complain(&format!("cannot list pods: {error}")),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(patience, wait).await.is_err() {
        crate::complain("some hosts do not run yet; the launcher starts without them");
    }
    Ok(())
}

async fn running(pods: &Api<Pod>) -> Result<BTreeSet<String>, kube::Error> {
    let list = pods.list(&ListParams::default()).await?;
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    Ok(list.items.into_iter().filter(runs).filter_map(|pod| pod.metadata.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_first_words_of_lines() {
        let names = hosts("a-worker-0 slots=1\na-worker-1 slots=1\n\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a-worker-0", "a-worker-1"]);
    }

    #[test]
    fn the_program_is_there_whole_and_can_be_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("kubectl"));
        std::fs::write(&from, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o755)).unwrap();
        copy(&from, &to).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
