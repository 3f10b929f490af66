//! The folder of one control plane: keys, data, logs. It is marked by a lock, so that what a killed test left behind can
//! be told from what is in use.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;

const PREFIX: &str = "trainyard-cluster-";
const LOCK: &str = "in-use";

/// A folder that is ours while this value lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// A folder of our own making goes with us; one that somebody named stays.
    temporary: Option<TempDir>,
    _lock: File,
}

impl Directory {
    /// A new folder among the temporary ones. Removes those of processes that are gone.
    pub(crate) fn temporary() -> Result<Self, Error> {
        let base = std::env::temp_dir();
        remove_leftovers(&base);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base).map_err(Error::at(&base))?;
        let lock = lock(made.path())?;
        Ok(Self { path: made.path().to_owned(), temporary: Some(made), _lock: lock })
    }

    /// This folder, emptied of what an earlier control plane left.
    pub(crate) fn named(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::at(path))?;
        let lock = lock(path)?;
        for name in ["etcd", "pki", "log", "kubeconfig"] {
            let old = path.join(name);
            let removed = if old.is_dir() { remove(&old) } else { fs::remove_file(&old) };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::at(old)(error));
                }
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), temporary: None, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is, for somebody to read the logs.
    pub(crate) fn keep(&mut self) {
        if let Some(folder) = self.temporary.take() {
            let _path = folder.keep();
        }
    }
}

fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(Error::at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(Error::at(path)(error)),
        Err(TryLockError::WouldBlock) => {
            Err(std::io::Error::other(format!("a control plane already runs in {}", folder.display())).into())
        }
    }
}

/// Whether a control plane runs in this folder.
pub fn is_used(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Whether nobody holds the folder. One without a lock may be just about to get it.
fn is_left(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|file| file.try_lock().is_ok())
}

fn remove_leftovers(base: &Path) {
    let ours = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
    };
    let entries = fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(ours).filter(|path| is_left(path)) {
        // Somebody else may be removing it too.
        let _result = remove(&path);
    }
}

#[expect(clippy::disallowed_methods, reason = "only programs of ours have been there")]
fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_test_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let [left, used] = ["left", "used"].map(|name| folder(&format!("{PREFIX}{name}")));
        let [new, foreign] = [folder(&format!("{PREFIX}new")), folder("foreign")];
        drop(lock(&left).unwrap());
        drop(lock(&foreign).unwrap());
        let held = lock(&used).unwrap();
        remove_leftovers(base.path());
        assert_eq!([&left, &used, &new, &foreign].map(|path| path.exists()), [false, true, true, true]);
        assert!(lock(&used).unwrap_err().to_string().contains("already runs"));
        drop(held);
    }
}
