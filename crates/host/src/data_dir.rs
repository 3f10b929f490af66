//! A data directory: one owner, one control plane at a time, one version.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_node::lock::{FileLock, LockError};

use crate::Error;

/// Newest layout of a data directory that this binary knows.
pub const VERSION: u32 = 1;
/// Says which layout it is.
const VERSION_FILE: &str = "version";

/// A killed control plane is gone after this long, or something is wrong with it.
const DYING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

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
    /// When another control plane uses it, when it belongs to another user, when a newer version wrote it, when it holds
    /// something else. A directory that is refused for what it holds, or for whose it is, stays as it was.
    pub fn open(path: &Path) -> Result<Self, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| unusable(path, source))?;
        let path = fs::canonicalize(path).map_err(|source| unusable(path, source))?;
        check_owner(&path)?;
        check_content(&path)?;
        close(&path)?;
        let lock = FileLock::succeed(&lock_file(&path), patience()).map_err(|error| match error {
            LockError::Held { pid } => Error::InUse { path: path.clone(), pid },
            LockError::Io(source) => unusable(&path, source),
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

/// A control plane that was killed may take a moment to be gone.
fn patience() -> impl FnMut() -> bool {
    let mut left = DYING.as_millis() / LOOK.as_millis();
    move || {
        std::thread::sleep(LOOK);
        left = left.saturating_sub(1);
        left > 0
    }
}

/// Why a directory cannot be used, with what to do where that is known.
fn unusable(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { path: path.to_owned() },
        _ => Error::DataDir { path: path.to_owned(), source },
    }
}

/// The file a control plane holds a lock on while it uses the directory.
pub fn lock_file(path: &Path) -> PathBuf {
    path.join("lock")
}

/// Objects include secrets: the directory is its owner's alone.
fn check_owner(path: &Path) -> Result<(), Error> {
    let broken = |source| unusable(path, source);
    let found = fs::metadata(path).map_err(broken)?;
    let own = fs::metadata("/proc/self").map_err(broken)?.uid();
    if found.uid() != own {
        return Err(Error::NotOurs { path: path.to_owned(), owner: found.uid(), user: own });
    }
    Ok(())
}

/// Closes the directory to others.
fn close(path: &Path) -> Result<(), Error> {
    let broken = |source| unusable(path, source);
    if fs::metadata(path).map_err(broken)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(broken)?;
    }
    Ok(())
}

/// Refuses a directory that is used for something else: it would become private, and get files of ours.
fn check_content(path: &Path) -> Result<(), Error> {
    let broken = |source| unusable(path, source);
    let entries = fs::read_dir(path).map_err(broken)?.collect::<io::Result<Vec<_>>>().map_err(broken)?;
    let names: Vec<String> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if may_be_used(&names) { Ok(()) } else { Err(Error::NotADataDir { path: path.to_owned() }) }
}

/// Whether a directory with these entries is a data directory, or may become one.
///
/// A data directory has a version and something else of ours. Before it is one it is empty, or has what a start that was
/// interrupted left; a new file system has a `lost+found`.
fn may_be_used(names: &[String]) -> bool {
    const BEGUN: [&str; 4] = ["lock", VERSION_FILE, "version.new", "lost+found"];
    const MORE: [&str; 7] = ["lock", "objects.redb", "node-name", "kubeconfig", "pki", "pods", "claims"];
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let is_begun = names.iter().all(|name| BEGUN.contains(&name.as_str()));
    is_begun || (has(VERSION_FILE) && MORE.iter().any(|name| has(name)))
}

fn check_version(path: &Path) -> Result<(), Error> {
    let file = path.join(VERSION_FILE);
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

    /// Everything about a directory that opening it could change.
    fn sight(path: &Path) -> (u32, Vec<String>) {
        let mut names: Vec<String> =
            fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        (fs::metadata(path).unwrap().permissions().mode(), names)
    }

    #[test]
    fn a_directory_with_something_else_in_it_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        for (name, entry) in [("home", "thesis.tex"), ("release", "version"), ("mine", ".hidden")] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(entry), "1.2.3\n").unwrap();
            fs::write(path.join("other"), "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).unwrap();
            let before = sight(&path);
            let error = DataDir::open(&path).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--data-dir"), "{error}");
            assert_eq!(sight(&path), before, "{name}");
        }
    }

    #[test]
    fn empty_directories_and_data_directories_may_be_used() {
        let cases: [(&[&str], bool); 8] = [
            (&[], true),
            (&["lost+found"], true),
            (&["lock", "version.new"], true),
            (&["version"], true),
            (&["version", "lock", "pki", "my-notes"], true),
            (&["version", "objects.redb"], true),
            (&["version", "src"], false),
            (&["pods", "lock"], false),
        ];
        for (names, may) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(may_be_used(&names), may, "{names:?}");
        }
    }

    #[test]
    fn the_node_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        assert_eq!(data.node_name("a").unwrap(), "a");
        assert_eq!(data.node_name("b").unwrap(), "a");
    }
}
