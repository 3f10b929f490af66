//! A look at a file that may be damaged. It changes nothing, and nothing in the file can make it panic.
//!
//! redb trusts what it reads: a flipped bit makes it return wrong values, fail or panic, or go back to the transaction
//! before. So a copy of the file is opened that exists in memory only, every object is read, and only then redb's own
//! check is made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend};

use super::format::{self, Head, Unusable};
use super::{CACHE, OBJECTS, failed, in_use, value};
use crate::store::backend::BackendError;
use crate::store::files::{Files, Medium, Overlay, Owned};

/// The thread that looks has this name, so that a process can leave out what its panics have to say.
pub const THREAD: &str = "store-check";

/// How many bytes say that a file is one of redb.
const MAGIC: usize = 9;

/// What is in a file.
#[derive(Debug, Default)]
pub(in crate::store) struct Seen {
    /// Nothing if there is no file, if it is empty, or if not even that can be read.
    pub(in crate::store) head: Option<Head>,
    /// Every object that could be read: key, revision of its last write, stored JSON.
    pub(in crate::store) objects: Vec<(String, u64, Bytes)>,
    /// Keys of objects that are there and cannot be read.
    pub(in crate::store) unreadable: Vec<String>,
    /// What is wrong with the file, if anything.
    pub(in crate::store) damage: Option<String>,
    /// Whether the file was never finished: redb writes its first bytes last.
    pub(in crate::store) unborn: bool,
}

/// Looks at a file.
///
/// # Errors
/// Only for what is no damage: a newer format, a file that is in use, a disk that does not answer.
pub(in crate::store) fn inspect(files: &dyn Files, path: &Path) -> Result<Seen, BackendError> {
    let Some(file) = files.existing(path).map_err(|error| failed(path, &error))? else {
        return Ok(Seen::default());
    };
    let length = file.len().map_err(|error| failed(path, &error))?;
    if length == 0 {
        return Ok(Seen::default());
    }
    let mut magic = [0; MAGIC];
    if length >= MAGIC as u64 {
        file.read(0, &mut magic).map_err(|error| failed(path, &error))?;
    }
    if magic == [0; MAGIC] {
        return Ok(Seen { unborn: true, ..broken("it has no beginning") });
    }
    let looking = std::thread::Builder::new().name(THREAD.into());
    std::thread::scope(|scope| {
        let handle =
            looking.spawn_scoped(scope, || look(&file, path)).map_err(|error| failed(path, &error))?;
        handle.join().unwrap_or_else(|_| Ok(broken("it cannot be read")))
    })
}

fn broken(why: impl Into<String>) -> Seen {
    Seen { damage: Some(why.into()), ..Seen::default() }
}

/// Runs a step of redb. A panic is an answer, too.
fn tried<T, E: std::fmt::Display>(step: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("a page of it makes no sense".into()),
    }
}

fn look(file: &Medium, path: &Path) -> Result<Seen, BackendError> {
    let seen = attempt(file, path, false)?;
    if seen.head.is_some() || seen.damage.is_none() {
        return Ok(seen);
    }
    // Nothing of it can be read. The transaction before may still be there, and the journal has what came after it.
    let older = attempt(file, path, true)?;
    Ok(Seen { damage: seen.damage, ..older })
}

/// Where redb keeps a few flags, and two of them: that a file has to be repaired, and that its last transaction is certainly
/// whole. With the first and without the second redb looks at the transaction before, too.
const FLAGS: u64 = 9;
const TO_BE_REPAIRED: u8 = 2;
const WHOLE: u8 = 4;

fn go_back(file: &dyn StorageBackend) -> std::io::Result<()> {
    let mut flags = [0];
    file.read(FLAGS, &mut flags)?;
    file.write(FLAGS, &flags.map(|flags| (flags | TO_BE_REPAIRED) & !WHOLE))
}

fn attempt(file: &Medium, path: &Path, older: bool) -> Result<Seen, BackendError> {
    let overlay: Medium = Arc::new(Overlay::new(Arc::clone(file)).map_err(|error| failed(path, &error))?);
    if older && go_back(&*overlay).is_err() {
        return Ok(broken("it is cut off"));
    }
    let open = || Builder::new().set_cache_size(CACHE).create_with_backend(Owned(Arc::clone(&overlay)));
    let opened = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => return Err(in_use(path)),
        Ok(Err(DatabaseError::Storage(redb::StorageError::Io(error)))) if !is_short(&error) => {
            return Err(failed(path, &error));
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("a page of it makes no sense".to_owned()),
    };
    let seen = match opened {
        Ok(database) => read(database, path)?,
        Err(why) => broken(why),
    };
    // redb lets go of the file itself, but not after a panic.
    let _ = overlay.close();
    Ok(seen)
}

/// A length that is not that of the file comes as an IO error, and is damage.
fn is_short(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | InvalidData | InvalidInput)
}

fn read(mut database: Database, path: &Path) -> Result<Seen, BackendError> {
    let mut seen = Seen::default();
    let head = match catch_unwind(AssertUnwindSafe(|| format::head(&database))) {
        Ok(Ok(head)) => head,
        Ok(Err(newer @ Unusable::Newer { .. })) => return Err(newer.into_backend(path)),
        Ok(Err(Unusable::Redb(error))) => {
            seen.damage = Some(error.to_string());
            None
        }
        Err(_) => {
            seen.damage = Some("a page of it makes no sense".into());
            None
        }
    };
    seen.head = head;
    let sealed = head.is_none_or(|head| head.format >= 3);
    if head.is_some() || seen.damage.is_some() {
        read_objects(&database, sealed, &mut seen);
    }
    match tried(|| database.check_integrity()) {
        Ok(true) => {}
        Ok(false) => note(&mut seen, "its pages contradict each other".into()),
        Err(why) => note(&mut seen, why),
    }
    // What redb does with a damaged file when it closes it is not of interest, and may be another panic.
    if seen.damage.is_some() {
        std::mem::forget(database);
    }
    Ok(seen)
}

fn note(seen: &mut Seen, damage: String) {
    seen.damage.get_or_insert(damage);
}

/// Reads from the beginning, and from the end if something in between is broken.
fn read_objects(database: &Database, sealed: bool, seen: &mut Seen) {
    let mut found = std::mem::take(&mut seen.objects);
    let mut unreadable = std::mem::take(&mut seen.unreadable);
    let mut forwards = || -> Result<(), redb::Error> {
        for entry in database.begin_read()?.open_table(OBJECTS)?.iter()? {
            let (key, stored) = entry?;
            take(key.value(), stored.value(), sealed, &mut found, &mut unreadable);
        }
        Ok(())
    };
    if let Err(why) = tried(&mut forwards) {
        note(seen, why);
        let last = found.last().map(|(key, ..)| key.clone());
        let mut backwards = || -> Result<(), redb::Error> {
            for entry in database.begin_read()?.open_table(OBJECTS)?.iter()?.rev() {
                let (key, stored) = entry?;
                if last.as_deref().is_some_and(|last| key.value() <= last) {
                    break;
                }
                take(key.value(), stored.value(), sealed, &mut found, &mut unreadable);
            }
            Ok(())
        };
        // Whatever it says: the file is known to be damaged.
        let _ = tried(&mut backwards);
    }
    found.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
    found.dedup_by(|(a, ..), (b, ..)| a == b);
    unreadable.sort_unstable();
    unreadable.dedup();
    (seen.objects, seen.unreadable) = (found, unreadable);
}

fn take(
    key: &str,
    (revision, bytes): (u64, &[u8]),
    sealed: bool,
    found: &mut Vec<(String, u64, Bytes)>,
    unreadable: &mut Vec<String>,
) {
    let json = if sealed { value::open(key, revision, bytes) } else { Some(bytes) };
    match json {
        Some(json) => found.push((key.to_owned(), revision, Bytes::copy_from_slice(json))),
        None => unreadable.push(key.to_owned()),
    }
}
