//! Files that only their owner may read, written whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::Error;

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    move |source| Error::File { action, path: path.to_owned(), source }
}

/// Makes a directory for the owner alone, and one that is there into such a directory.
pub(crate) fn private_directory(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(failed("create the directory", path))?;
    restrict(path, 0o700)
}

/// The text of a file; nothing if it is not there. What others could read until now, they cannot from now on.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => restrict(path, 0o600).map(|()| Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(Error::Damaged { path: path.to_owned(), why: "it is not text".into() })
        }
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Writes a file beside its place, makes it durable, and moves it there.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let attempt = || {
        // For the owner alone from its first moment.
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(directory)?.sync_all()
    };
    attempt().map_err(failed("write", path))
}

/// The same for a file that can be made again at any time. Where the disk is full the file is written over in its place,
/// which needs no space: a crash in between damages it, and the next start writes it again.
pub(crate) fn write_derived(path: &Path, text: &str) -> Result<(), Error> {
    match write(path, text) {
        Err(error) if error.is_full() && path.exists() => {
            overwrite(path, text).map_err(failed("write", path))
        }
        other => other,
    }
}

fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("delete", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let found = fs::metadata(path).map_err(failed("look at", path))?.permissions().mode() & 0o777;
    if found & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), mode = format!("{found:o}"), "others could read this; closing it");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("restrict", path))
}

#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> Result<(), Error> {
    Ok(())
}
