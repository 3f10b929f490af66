//! Finding runs by their directories alone: for whoever cleans up after a control plane that is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::peer::Peer;
use super::{RuntimeError, request_stop};

/// The runs below a directory whose shims are alive; laid out as `<pod uid>/containers/<name>/<number>`.
pub fn running_under(root: &Path) -> Vec<PathBuf> {
    let pods = entries(root).into_iter().flat_map(|pod| entries(&pod.join("containers")));
    let runs = pods.flat_map(|container| entries(&container));
    runs.filter(|run| Peer::find(run).is_some()).collect()
}

/// Asks all of them to end; which they were. They end on their own, also when this process does not wait.
///
/// # Errors
/// When one could not be asked; the others have been.
pub fn end_all(root: &Path, grace: Duration, now: Timestamp) -> Result<Vec<PathBuf>, RuntimeError> {
    let runs = running_under(root);
    let mut trouble = Ok(());
    for run in &runs {
        trouble = trouble.and(request_stop(run, grace, now));
    }
    trouble.map(|()| runs)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
