//! Where things are kept by default.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Directories of earlier runs that are kept, for their logs.
const RUNS: usize = 20;

/// The data directory of `up`, unless another is given.
pub(crate) fn data_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    given.map_or_else(|| Ok(home("XDG_DATA_HOME", ".local/share")?.join("trainyard")), Ok)
}

/// A new directory for one `run`. Older ones are removed, but for the last few.
pub(crate) fn run_dir(stamp: &str) -> anyhow::Result<PathBuf> {
    let runs = home("XDG_STATE_HOME", ".local/state")?.join("trainyard").join("runs");
    forget_old(&runs);
    Ok(runs.join(format!("{stamp}-{}", std::process::id())))
}

fn home(variable: &str, below: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let other = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(below));
    own.or_else(other).context("neither $HOME nor a directory is given: use --data-dir")
}

/// Names begin with the time, so the oldest come first. One that is in use is never touched. Secrets of a run that was
/// killed are removed now: nobody else would look there again.
fn forget_old(runs: &Path) {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    dirs.sort();
    let old = dirs.len().saturating_sub(RUNS);
    for (n, dir) in dirs.iter().enumerate() {
        let pods = dir.join("pods");
        if trainyard_node::lock::is_held(&trainyard_host::lock_file(dir)) {
            continue;
        }
        if n < old && trainyard_node::runtime::running_under(&pods).is_empty() {
            // What cannot be removed now is removed next time.
            let _ = trainyard_node::remove_tree(dir);
        } else {
            trainyard_node::scrub_all(&pods);
        }
    }
}
