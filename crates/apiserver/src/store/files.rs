//! The files under the store, behind one small trait: tests put disks there that fail, and a look at a damaged file
//! reads through [`Overlay`], which changes nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// An open file. redb's own trait has all that a log needs.
pub(super) type Medium = Arc<dyn StorageBackend>;

/// Where files come from.
pub(super) trait Files: Send + Sync {
    /// Opens a file; nothing if it is not there.
    fn existing(&self, path: &Path) -> Result<Option<Medium>, DatabaseError>;
    /// Opens a file, and makes it, readable by its owner only, if it is not there.
    fn create(&self, path: &Path) -> Result<Medium, DatabaseError>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine;

impl Files for Machine {
    fn existing(&self, path: &Path) -> Result<Option<Medium>, DatabaseError> {
        if path.try_exists()? { self.create(path).map(Some) } else { Ok(None) }
    }

    fn create(&self, path: &Path) -> Result<Medium, DatabaseError> {
        create_directory(path)?;
        Ok(Arc::new(FileBackend::new(open_file(path)?)?))
    }
}

/// Everything in a file.
pub(super) fn read_all(medium: &dyn StorageBackend) -> io::Result<Vec<u8>> {
    let length = usize::try_from(medium.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    medium.read(0, &mut bytes)?;
    Ok(bytes)
}

/// The objects include secrets, so the directory is for the owner only.
fn create_directory(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) else {
        return Ok(());
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn open_file(path: &Path) -> io::Result<File> {
    let new = !path.exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    if new {
        // A file whose name is not on disk is lost with the power, however well it was written.
        sync_directory(path)?;
    }
    Ok(file)
}

/// Makes the names in the directory of this file durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent().filter(|d| !d.as_os_str().is_empty()) {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// A shared file as one that redb owns.
#[derive(Clone, Debug)]
pub(super) struct Owned(pub(super) Medium);

impl StorageBackend for Owned {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
}

/// Writes stay in memory, in pieces of this size.
const PIECE: u64 = 4096;

/// A file that can be written to and stays as it is. redb repairs what it opens; a damaged file must not be changed
/// before its owner has decided what to do.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Medium,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    length: u64,
    /// How much of the file counts: what was cut off does not come back.
    from_file: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: Medium) -> io::Result<Self> {
        let length = file.len()?;
        let written = Mutex::new(Written { length, from_file: length, pieces: BTreeMap::new() });
        Ok(Self { file, written })
    }

    /// The bytes of a piece as they are now.
    fn piece(&self, written: &Written, number: u64) -> io::Result<Vec<u8>> {
        if let Some(piece) = written.pieces.get(&number) {
            return Ok(piece.clone());
        }
        let start = number.saturating_mul(PIECE);
        let there = written.from_file.saturating_sub(start).min(PIECE);
        let mut piece = vec![0; to_usize(PIECE)?];
        if let Some(out) = piece.get_mut(..to_usize(there)?).filter(|out| !out.is_empty()) {
            self.file.read(start, out)?;
        }
        Ok(piece)
    }
}

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The parts of a range: number of the piece, where in the piece, how long.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset.saturating_add(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        let within = at % PIECE;
        let part = (PIECE - within).min(end.saturating_sub(at));
        let next = (part > 0).then_some((at / PIECE, within, part));
        at += part;
        next
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().unwrap_or_else(PoisonError::into_inner).length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= written.length);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let untouched = written.pieces.range(offset / PIECE..=end / PIECE).next().is_none();
        if untouched && end <= written.from_file {
            return self.file.read(offset, out);
        }
        let mut done = 0;
        for (number, within, part) in parts(offset, out.len() as u64) {
            let (within, part) = (to_usize(within)?, to_usize(part)?);
            let piece = self.piece(&written, number)?;
            if let (Some(to), Some(from)) = (out.get_mut(done..done + part), piece.get(within..within + part))
            {
                to.copy_from_slice(from);
            }
            done += part;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if len < written.length {
            written.from_file = written.from_file.min(len);
            let last = len / PIECE;
            if let Some(piece) = written.pieces.get_mut(&last) {
                piece.truncate(to_usize(len % PIECE)?);
                piece.resize(to_usize(PIECE)?, 0);
            }
            written.pieces.retain(|number, _| *number <= last);
        }
        written.length = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        for (number, within, part) in parts(offset, data.len() as u64) {
            let (within, part) = (to_usize(within)?, to_usize(part)?);
            let mut piece = self.piece(&written, number)?;
            if let (Some(to), Some(from)) =
                (piece.get_mut(within..within + part), data.get(done..done + part))
            {
                to.copy_from_slice(from);
            }
            written.pieces.insert(number, piece);
            done += part;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
