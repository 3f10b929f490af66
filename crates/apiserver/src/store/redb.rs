//! Objects in one file, through the redb crate: a crash at any moment leaves every acknowledged write and no part of
//! another.

mod format;
pub(super) mod inspect;
#[cfg(test)]
pub(super) mod tests;
mod value;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

pub(super) use self::format::{FORMAT, Head};
use super::backend::{Backend, BackendError, Loaded, Write};
use super::files::{Files, Owned};
use super::identity::Identity;

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

/// A stored object: revision of its last write, stored JSON with its checksum.
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
    /// Opens the file, and creates it and its directory (readable by the owner only) when they are missing. A new one, and
    /// one of an older format, has to be [filled](Self::fill) before anything else. redb writes to what it opens: where the
    /// disk has no space for that, the file is opened by the first call that needs it.
    ///
    /// # Errors
    /// [`BackendError::Newer`] when a newer binary wrote it, [`BackendError::Storage`] when it cannot be opened, is
    /// damaged, or is open in another process.
    pub(super) fn open(files: Arc<dyn Files>, path: &Path) -> Result<Self, BackendError> {
        let file = path.to_owned();
        let open =
            move || Builder::new().set_cache_size(CACHE).create_with_backend(Owned(files.create(&file)?));
        let this = Self { open: Box::new(open), path: path.to_owned(), state: Mutex::new(State::default()) };
        let opened = this.ready(&mut this.lock()).map(drop);
        match opened.and_then(|()| this.compact()) {
            Err(error @ BackendError::Full { .. }) => {
                tracing::warn!(%error, "the object store cannot be written to; will be tried again");
                Ok(this)
            }
            other => other.map(|()| this),
        }
    }

    /// Writes everything anew, in one transaction.
    pub(super) fn fill<'a>(
        &self,
        identity: Identity,
        revision: u64,
        objects: impl IntoIterator<Item = (&'a str, u64, &'a [u8])>,
    ) -> Result<(), BackendError> {
        let mut state = self.lock();
        let database = self.ready(&mut state)?;
        let filled = format::fill(database, identity, revision, objects);
        filled.map_err(|error| {
            state.database = None;
            failed(&self.path, &error)
        })
    }

    /// Notes that the journal of this file is complete.
    pub(super) fn set_journaled(&self) -> Result<(), BackendError> {
        let mut state = self.lock();
        let database = self.ready(&mut state)?;
        format::set_journaled(database).map_err(|error| {
            state.database = None;
            failed(&self.path, &error)
        })
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

    /// A panic while the lock was held leaves nothing half done that `ready` does not mend.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open database, with nothing left of a failed batch.
    fn ready<'s>(&self, state: &'s mut State) -> Result<&'s mut Database, BackendError> {
        let database = match state.database.take() {
            Some(database) => database,
            None => {
                // The file was looked at before, but a disk can answer differently the next time.
                let opened = catch_unwind(AssertUnwindSafe(|| (self.open)()));
                let opened = opened.map_err(|_| BackendError::Storage("the object store panicked".into()))?;
                opened.map_err(|e| self.cannot_open(e))?
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
            DatabaseError::DatabaseAlreadyOpen => in_use(&self.path),
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
        let read = read_all(database).map_err(|e| {
            // The handle may be unusable now; the next call opens the file again.
            state.database = None;
            failed(&self.path, &e)
        })?;
        read.map_err(|key| damaged(&self.path, format!("{key} cannot be read")))
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

fn in_use(path: &Path) -> BackendError {
    let directory = path.parent().unwrap_or(path);
    BackendError::Storage(format!("the data directory {} is in use by another process", directory.display()))
}

pub(super) fn damaged(path: &Path, what: impl Into<String>) -> BackendError {
    let directory = path.parent().unwrap_or(path);
    BackendError::Damaged { directory: directory.display().to_string(), what: what.into() }
}

pub(super) fn failed(path: &Path, error: &(dyn std::error::Error + 'static)) -> BackendError {
    if !is_full(error) {
        return BackendError::Storage(format!("{}: {error}", path.display()));
    }
    let directory = path.parent().unwrap_or(path).display().to_string();
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    BackendError::Full { directory, what: format!("{file}: {error}") }
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

/// Everything, or the key of an object that is not what was written.
fn read_all(database: &Database) -> Result<Result<Loaded, String>, redb::Error> {
    let transaction = database.begin_read()?;
    let revision = transaction.open_table(META)?.get("revision")?.map_or(0, |v| v.value());
    let table = transaction.open_table(OBJECTS)?;
    let mut objects = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (revision, sealed) = value.value();
        let Some(json) = value::open(key.value(), revision, sealed) else {
            return Ok(Err(key.value().to_owned()));
        };
        objects.push((key.value().to_owned(), revision, Bytes::copy_from_slice(json)));
    }
    Ok(Ok(Loaded { revision, objects }))
}

/// One transaction for the batch. What it overwrites goes to `undo` first.
fn write(database: &Database, batch: &[Write], sign: bool, undo: &mut Undo) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    format::make_durable(&mut transaction)?;
    {
        let mut meta = transaction.open_table(META)?;
        let mut objects = transaction.open_table(OBJECTS)?;
        undo.revision = meta.get("revision")?.map_or(0, |v| v.value());
        let mut last = undo.revision;
        for write in batch {
            let key = write.key.as_str();
            let old = match &write.value {
                Some(json) => {
                    let sealed = value::seal(key, write.revision, json);
                    objects.insert(key, (write.revision, sealed.as_slice()))?
                }
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
    format::make_durable(&mut transaction)?;
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
