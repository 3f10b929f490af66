//! A data directory: one owner, one control plane at a time, one version.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use trainyard_node::lock::{FileLock, LockError};

use crate::Error;

/// Newest layout of a data directory that this binary knows.
pub const VERSION: u32 = 1;

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: FileLock,
}

impl DataDir {
    /// Opens a directory, and makes it if it is not there.
    ///
    /// # Errors
    /// When another control plane uses it, when it belongs to another user, when a newer version wrote it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let broken = |source: io::Error| Error::DataDir { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(broken)?;
        let path = fs::canonicalize(path).map_err(broken)?;
        check_owner(&path)?;
        let lock = FileLock::acquire(&lock_file(&path)).map_err(|error| match error {
            LockError::Held { pid } => Error::InUse { path: path.clone(), pid },
            LockError::Io(source) => Error::DataDir { path: path.clone(), source },
        })?;
        check_version(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The node's name, the same for as long as the directory lives: pods are bound to it.
    pub fn node_name(&self, fresh: &str) -> Result<String, Error> {
        let file = self.path.join("node-name");
        let broken = |source| Error::DataDir { path: file.clone(), source };
        match fs::read_to_string(&file) {
            Ok(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
            Ok(_) => self.write_node_name(&file, fresh).map_err(broken),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write_node_name(&file, fresh).map_err(broken)
            }
            Err(error) => Err(broken(error)),
        }
    }

    fn write_node_name(&self, file: &Path, name: &str) -> io::Result<String> {
        replace(file, name)?;
        Ok(name.to_owned())
    }
}

/// The file a control plane holds a lock on while it uses the directory.
pub fn lock_file(path: &Path) -> PathBuf {
    path.join("lock")
}

/// Objects include secrets: the directory is its owner's alone.
fn check_owner(path: &Path) -> Result<(), Error> {
    let broken = |source| Error::DataDir { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(broken)?;
    let own = fs::metadata("/proc/self").map_err(broken)?.uid();
    if found.uid() != own {
        return Err(Error::NotOurs { path: path.to_owned(), owner: found.uid(), user: own });
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(broken)?;
    }
    Ok(())
}

fn check_version(path: &Path) -> Result<(), Error> {
    let file = path.join("version");
    let broken = |source| Error::DataDir { path: file.clone(), source };
    match fs::read_to_string(&file) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found > VERSION => {
                Err(Error::NewerData { path: path.to_owned(), found, known: VERSION })
            }
            Ok(_) => Ok(()),
            Err(_) => Err(Error::OddVersion { path: file, text: text.trim().chars().take(40).collect() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(&file, &VERSION.to_string()).map_err(broken)
        }
        Err(error) => Err(broken(error)),
    }
}

/// Writes a small file so that it is there whole or not at all.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let next = file.with_extension("new");
    fs::write(&next, format!("{text}\n"))?;
    fs::File::open(&next)?.sync_all()?;
    fs::rename(&next, file)?;
    file.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let first = DataDir::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let error = DataDir::open(&path).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()) && error.contains("data"), "{error}");
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_newer_directory_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("version"), "7\n").unwrap();
        let error = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("version 7") && error.contains("newer trainyard"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("version")).unwrap(), "7\n");
        fs::write(dir.path().join("version"), "soup").unwrap();
        let error = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("soup"), "{error}");
    }

    #[test]
    fn the_node_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        assert_eq!(data.node_name("a").unwrap(), "a");
        assert_eq!(data.node_name("b").unwrap(), "a");
    }
}
