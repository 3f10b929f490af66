//! Objects in one file, through the redb crate: a crash at any moment leaves every acknowledged write and no part of
//! another.

mod format;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use redb::{Builder, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::backend::{Backend, BackendError, Loaded, Write};

/// `format` and `revision`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Key of the object: revision of its last write, stored JSON.
const OBJECTS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("objects");

/// The store keeps every object in memory itself; redb's own cache only serves the pages a commit rewrites.
const CACHE: usize = 32 << 20;
/// Files below this size are not worth compacting.
const COMPACT_ABOVE: u64 = 32 << 20;

type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// Durable storage in a redb file.
pub(super) struct Redb {
    /// Opens the file again: redb refuses all further work on a handle that has seen an IO error.
    open: Opener,
    /// Named in errors.
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing after an error, until the file could be opened again.
    database: Option<Database>,
    /// How to take back a batch that failed, when it is not known yet whether it reached the file.
    undo: Option<Undo>,
    /// Whether the file says that this binary writes to it.
    signed: bool,
}

/// A stored object: revision of its last write, stored JSON.
type Stored = (u64, Vec<u8>);

/// What a batch overwrote.
struct Undo {
    revision: u64,
    objects: Vec<(String, Option<Stored>)>,
}

impl std::fmt::Debug for Redb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redb").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Redb {
    /// Opens the file, and creates it and its directory (readable by the owner only) when they are missing.
    ///
    /// # Errors
    /// [`BackendError::Newer`] when a newer binary wrote it, [`BackendError::Storage`] when it cannot be opened, is
    /// damaged, or is open in another process, [`BackendError::Full`] when a new one finds no space.
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        create_directory(path).map_err(|e| failed(path, &e))?;
        let file = path.to_owned();
        let this = Self::with(
            path,
            Box::new(move || Builder::new().set_cache_size(CACHE).create_file(open_file(&file)?)),
        )?;
        this.compact()?;
        Ok(this)
    }

    /// The last revision that was written.
    pub(super) fn revision(&self) -> Result<u64, BackendError> {
        let mut state = self.lock();
        let database = self.ready(&mut state)?;
        revision(database).map_err(|error| {
            state.database = None;
            failed(&self.path, &error)
        })
    }

    /// Notes in the file that this binary writes to it, with all that belongs to it.
    pub(super) fn sign(&self) -> Result<(), BackendError> {
        self.write(&[])
    }

    /// One transaction, which this binary signs if it is its first.
    fn write(&self, batch: &[Write]) -> Result<(), BackendError> {
        let mut state = self.lock();
        let sign = !state.signed;
        let database = self.ready(&mut state)?;
        let mut undo = Undo { revision: 0, objects: Vec::with_capacity(batch.len()) };
        let Err(error) = write(database, batch, sign, &mut undo) else {
            state.signed = true;
            return Ok(());
        };
        // Whether the batch is in the file now is not known: an error can come after the write that made it so. So
        // open again, look, and take it back. When even that fails, the next call tries again before anything else.
        state.database = None;
        state.undo = Some(undo);
        if let Err(again) = self.ready(&mut state) {
            tracing::warn!(error = %again, "cannot open the object store again after a failed write; will retry");
        }
        Err(failed(&self.path, &error))
    }

    fn with(path: &Path, open: Opener) -> Result<Self, BackendError> {
        let this = Self { open, path: path.to_owned(), state: Mutex::new(State::default()) };
        let mut state = this.lock();
        this.ready(&mut state)?;
        drop(state);
        Ok(this)
    }

    /// A panic while the lock was held leaves nothing half done that `ready` does not mend.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open database, with nothing left of a failed batch.
    fn ready<'s>(&self, state: &'s mut State) -> Result<&'s mut Database, BackendError> {
        let database = match state.database.take() {
            Some(database) => database,
            None => {
                let database = (self.open)().map_err(|e| self.cannot_open(e))?;
                format::check(&database).map_err(|e| e.into_backend(&self.path))?;
                database
            }
        };
        if let Some(undo) = &state.undo {
            take_back(&database, undo).map_err(|e| failed(&self.path, &e))?;
            state.undo = None;
        }
        Ok(state.database.insert(database))
    }

    fn cannot_open(&self, error: DatabaseError) -> BackendError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                let directory = self.path.parent().unwrap_or(&self.path);
                BackendError::Storage(format!(
                    "the data directory {} is in use by another process",
                    directory.display()
                ))
            }
            other => failed(&self.path, &other),
        }
    }

    /// Gives space back when most of the file is free. Only at start, because it needs the file to itself and time.
    fn compact(&self) -> Result<(), BackendError> {
        let size = fs::metadata(&self.path).map_or(0, |m| m.len());
        if size < COMPACT_ABOVE {
            return Ok(());
        }
        let mut state = self.lock();
        let database = self.ready(&mut state)?;
        match shrink(database, size) {
            Ok(false) => {}
            Ok(true) => {
                let now = fs::metadata(&self.path).map_or(0, |m| m.len());
                tracing::info!(path = %self.path.display(), before = size, after = now, "compacted the object store");
            }
            // A full disk, perhaps. The objects are all there, so this is no reason not to start.
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "could not compact the object store");
                state.database = None;
            }
        }
        Ok(())
    }
}

impl Backend for Redb {
    fn load(&self) -> Result<Loaded, BackendError> {
        let mut state = self.lock();
        let database = self.ready(&mut state)?;
        read_all(database).map_err(|e| {
            // The handle may be unusable now; the next call opens the file again.
            state.database = None;
            failed(&self.path, &e)
        })
    }

    fn commit(&self, batch: &[Write]) -> Result<(), BackendError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.write(batch)
    }

    fn blocks(&self) -> bool {
        true
    }
}

pub(super) fn failed(path: &Path, error: &(dyn std::error::Error + 'static)) -> BackendError {
    let text = format!("{}: {error}", path.display());
    if is_full(error) { BackendError::Full(text) } else { BackendError::Storage(text) }
}

/// Whether there was no space, however deep the layers above have buried it.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = match error.downcast_ref::<redb::Error>() {
        Some(redb::Error::Io(io)) => Some(io),
        _ => match error.downcast_ref::<DatabaseError>() {
            Some(DatabaseError::Storage(redb::StorageError::Io(io))) => Some(io),
            _ => error.downcast_ref::<std::io::Error>(),
        },
    };
    let full = |kind| {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
    };
    io.is_some_and(|io| full(io.kind()))
}

fn revision(database: &Database) -> Result<u64, redb::Error> {
    Ok(database.begin_read()?.open_table(META)?.get("revision")?.map_or(0, |v| v.value()))
}

fn read_all(database: &Database) -> Result<Loaded, redb::Error> {
    let transaction = database.begin_read()?;
    let revision = transaction.open_table(META)?.get("revision")?.map_or(0, |v| v.value());
    let table = transaction.open_table(OBJECTS)?;
    let mut objects = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (revision, bytes) = value.value();
        objects.push((key.value().to_owned(), revision, Bytes::copy_from_slice(bytes)));
    }
    Ok(Loaded { revision, objects })
}

/// One transaction for the batch. What it overwrites goes to `undo` first.
fn write(database: &Database, batch: &[Write], sign: bool, undo: &mut Undo) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut meta = transaction.open_table(META)?;
        let mut objects = transaction.open_table(OBJECTS)?;
        undo.revision = meta.get("revision")?.map_or(0, |v| v.value());
        let mut last = undo.revision;
        for write in batch {
            let key = write.key.as_str();
            let old = match &write.value {
                Some(value) => objects.insert(key, (write.revision, value.as_ref()))?,
                None => objects.remove(key)?,
            };
            let old = old.map(|old| {
                let (revision, bytes) = old.value();
                (revision, bytes.to_vec())
            });
            undo.objects.push((write.key.clone(), old));
            last = last.max(write.revision);
        }
        meta.insert("revision", last)?;
    }
    if sign {
        format::sign(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Removes a failed batch if it reached the file after all. Nothing was written since: the revision tells.
fn take_back(database: &Database, undo: &Undo) -> Result<(), redb::Error> {
    let revision = revision(database)?;
    // An empty undo comes from a transaction that never began.
    if revision == undo.revision || undo.objects.is_empty() {
        return Ok(());
    }
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        transaction.open_table(META)?.insert("revision", undo.revision)?;
        let mut objects = transaction.open_table(OBJECTS)?;
        // Backwards, because a batch may write the same key twice.
        for (key, old) in undo.objects.iter().rev() {
            match old {
                Some((revision, bytes)) => objects.insert(key.as_str(), (*revision, bytes.as_slice()))?,
                None => objects.remove(key.as_str())?,
            };
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Compacts when less than half of a file of this size is in use.
fn shrink(database: &mut Database, size: u64) -> Result<bool, redb::Error> {
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    let used = stats.allocated_pages().saturating_mul(stats.page_size() as u64);
    if used >= size / 2 {
        return Ok(false);
    }
    database.compact()?;
    Ok(true)
}

/// The objects include secrets, so the directory is for the owner only.
fn create_directory(path: &Path) -> std::io::Result<()> {
    let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) else {
        return Ok(());
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

pub(super) fn open_file(path: &Path) -> std::io::Result<File> {
    let new = !path.exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    if new && let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        // A file whose name is not on disk is lost with the power, however well it was written.
        File::open(directory)?.sync_all()?;
    }
    Ok(file)
}
