//! Objects that are brought back: from a damaged data directory, or from a backup.
//!
//! Some of them may be missing afterwards, and then containers run whose pods nobody knows. They were not deleted, so
//! a mark in the directory tells the node to leave them alone.

use std::fs;
use std::path::{Path, PathBuf};

use trainyard_apiserver::store::backend::Backend as _;
use trainyard_apiserver::store::backup;
use trainyard_apiserver::store::journal::{self, Journal, Salvaged};

use crate::{DataDir, Error, files};

/// The file that says that objects of the directory were lost: see [`trainyard_node::Options::lost_objects`].
pub fn lost_objects_file(path: &Path) -> PathBuf {
    path.join("objects-were-lost")
}

/// The name of the objects in a backup.
const OBJECTS: &str = "objects";
/// What a backup has beside the objects, if it is there.
const OTHERS: [&str; 3] = ["node-name", "pki", "uids.json"];

impl DataDir {
    /// Where the objects are kept.
    pub(crate) fn objects(&self) -> PathBuf {
        self.path().join("objects.redb")
    }

    /// Brings back what is readable if the objects are damaged; nothing if they are not.
    ///
    /// # Errors
    /// When files cannot be read or written. Nothing is changed then, but for a copy of the damaged files.
    pub fn salvage(&self) -> Result<Option<Salvaged>, Error> {
        let mark = Mark::set(self)?;
        let salvaged = journal::salvage(&self.objects())?;
        mark.keep_if(salvaged.is_some())?;
        Ok(salvaged)
    }

    /// Puts the objects of a backup in the place of those that are there. Keys and the node's name are taken from it, too,
    /// if the directory has none. Returns how many objects, and where those are kept that were there before.
    ///
    /// # Errors
    /// When the backup is damaged: nothing is changed then. When files cannot be read or written.
    pub fn restore(&self, backup: &Path) -> Result<(usize, Option<PathBuf>), Error> {
        let file = backup.join(OBJECTS);
        let stream =
            fs::read(&file).map_err(|source| Error::File { action: "read", path: file.clone(), source })?;
        let _checked =
            backup::read(stream.clone().into()).map_err(|why| Error::BadBackup { path: file, why })?;
        for name in OTHERS.iter().filter(|name| !self.path().join(name).exists()) {
            copy(&backup.join(name), &self.path().join(name))?;
        }
        Mark::set(self)?;
        Ok(journal::restore(&self.objects(), stream.into())?)
    }

    /// All objects, as a backup has them. For a directory that nobody else uses.
    ///
    /// # Errors
    /// When they are damaged, or cannot be read.
    pub fn backup(&self) -> Result<impl Iterator<Item = impl AsRef<[u8]>>, Error> {
        Ok(backup::of_loaded(Journal::open(&self.objects())?.load()?))
    }
}

/// Finishes a backup whose objects are written: looks at them, and adds what else belongs to it. Returns how many objects.
///
/// # Errors
/// When what was written is not a whole backup. When files cannot be read or written.
pub fn complete_backup(data_dir: &Path, backup: &Path) -> Result<usize, Error> {
    let file = backup.join(OBJECTS);
    let stream =
        fs::read(&file).map_err(|source| Error::File { action: "read", path: file.clone(), source })?;
    let objects =
        backup::read(stream.into()).map_err(|why| Error::BadBackup { path: file, why })?.objects.len();
    for name in OTHERS {
        copy(&data_dir.join(name), &backup.join(name))?;
    }
    Ok(objects)
}

/// Begins a backup: an empty directory, and the file in it that takes the objects.
///
/// # Errors
/// When the directory exists and has something in it, or cannot be made.
pub fn begin_backup(backup: &Path) -> Result<(fs::File, PathBuf), Error> {
    let broken = |source| Error::File { action: "write", path: backup.to_owned(), source };
    let used = |mut entries: fs::ReadDir| entries.next().is_some();
    if backup.exists() && fs::read_dir(backup).map_or(true, used) {
        return Err(broken(std::io::ErrorKind::DirectoryNotEmpty.into()));
    }
    files::private_directory(backup)?;
    let path = backup.join(OBJECTS);
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    Ok((options.open(&path).map_err(broken)?, path))
}

/// Copies a file or a directory of files; nothing if there is none.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let broken = |source| Error::File { action: "copy", path: from.to_owned(), source };
    if !from.exists() {
        return Ok(());
    }
    if !from.is_dir() {
        fs::copy(from, to).map_err(broken)?;
        return fs::File::open(to).and_then(|file| file.sync_all()).map_err(broken);
    }
    files::private_directory(to)?;
    for entry in fs::read_dir(from).map_err(broken)? {
        let name = entry.map_err(broken)?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

/// The mark, set before anything is changed, so that no crash in between ends a container.
struct Mark {
    path: PathBuf,
    ours: bool,
}

impl Mark {
    fn set(dir: &DataDir) -> Result<Self, Error> {
        let path = lost_objects_file(dir.path());
        let ours = !path.exists();
        let written = fs::write(&path, "").and_then(|()| fs::File::open(dir.path())?.sync_all());
        written.map_err(|source| Error::File { action: "write", path: path.clone(), source })?;
        Ok(Self { path, ours })
    }

    fn keep_if(self, needed: bool) -> Result<(), Error> {
        if needed || !self.ours {
            return Ok(());
        }
        let path = self.path;
        fs::remove_file(&path).map_err(|source| Error::File { action: "remove", path, source })
    }
}
