//! What may hold secrets, and is gone when nothing can use it any more.
//!
//! The description of a run has the container's whole environment and its arguments. The shim removes it at the end, and
//! whoever looks at a run that has ended removes what a shim that was killed left. Volumes of Secrets, ConfigMaps and
//! tokens go when their pod has ended. A container that is started again gets both anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock;
use crate::remove::remove_tree;
use crate::runtime::files::{LOCK, SPEC};
use crate::runtime::state::State;
use crate::volumes::is_payload;

/// Removes the description of a run that has ended.
pub(crate) fn forget_spec(run: &Path) -> io::Result<()> {
    gone(fs::remove_file(run.join(SPEC)))
}

/// Removes what may hold secrets of every pod in a directory of pods that nobody uses any more.
pub fn scrub_all(pods: &Path) {
    for pod in entries(pods) {
        // What cannot be removed now is removed next time.
        let _ = scrub(&pod);
    }
}

/// Removes what may hold secrets of a pod that has ended. A pod of which something runs is left alone.
pub(crate) fn scrub(pod: &Path) -> io::Result<()> {
    let containers = entries(&pod.join("containers"));
    let runs: Vec<PathBuf> = containers.iter().flat_map(|container| entries(container)).collect();
    if runs.iter().any(|run| is_up(run)) {
        return Ok(());
    }
    let mut trouble = Ok(());
    for file in runs.iter().flat_map(|run| entries(run)).filter(|file| describes(file)) {
        trouble = trouble.and(gone(fs::remove_file(file)));
    }
    for volume in entries(&pod.join("volumes")).into_iter().filter(|volume| is_payload(volume)) {
        trouble = trouble.and(gone(remove_tree(&volume)));
    }
    trouble
}

/// A shim that has told its container's end may still be there for a moment.
fn is_up(run: &Path) -> bool {
    lock::is_held(&run.join(LOCK)) && !matches!(State::read(run), Ok(Some(State::Ended { .. })))
}

/// A description, or the draft of one that a control plane left when it died.
fn describes(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix('.').unwrap_or(name).starts_with(SPEC)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::FileLock;
    use std::os::unix::fs::symlink;

    fn pod(pods: &Path, uid: &str) -> PathBuf {
        let pod = pods.join(uid);
        let run = pod.join("containers/c/0");
        fs::create_dir_all(&run).unwrap();
        for name in ["spec.json", ".spec.json.17.0", "log", "state"] {
            fs::write(run.join(name), "").unwrap();
        }
        fs::create_dir_all(pod.join("volumes/token/..0")).unwrap();
        symlink("..0", pod.join("volumes/token/..data")).unwrap();
        fs::create_dir_all(pod.join("volumes/scratch")).unwrap();
        fs::write(pod.join("volumes/scratch/kept"), "").unwrap();
        pod
    }

    fn files(pod: &Path) -> Vec<bool> {
        let names = [
            "containers/c/0/spec.json",
            "containers/c/0/.spec.json.17.0",
            "volumes/token",
            "containers/c/0/log",
            "volumes/scratch/kept",
        ];
        names.iter().map(|name| pod.join(name).exists()).collect()
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let root = tempfile::tempdir().unwrap();
        let (ended, running) = (pod(root.path(), "ended"), pod(root.path(), "running"));
        let _shim = FileLock::acquire(&running.join("containers/c/0").join(LOCK)).unwrap();
        scrub_all(root.path());
        assert_eq!(files(&ended), [false, false, false, true, true]);
        assert_eq!(files(&running), [true; 5]);
    }
}
