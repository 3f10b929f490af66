//! Bringing back what is readable of a damaged store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::opening::{Found, look, name};
use super::record::Record;
use super::{log, old, path_of};
use crate::store::backend::{BackendError, Loaded, Write};
use crate::store::backup;
use crate::store::files::{Machine, sync_directory};
use crate::store::identity::Identity;
use crate::store::key::Key;
use crate::store::redb::{FORMAT, Redb, failed};

/// A store that is brought back begins this far above every revision that its clients can know. So whatever they saw
/// last, they are told that it is too old, and list again.
const LEAP: u64 = 1_000_000_000;

/// What was brought back.
#[derive(Debug)]
pub struct Salvaged {
    /// How many objects.
    pub objects: usize,
    /// What was not, in words: objects by name, and stretches of the journal.
    pub lost: Vec<String>,
    /// Where the damaged files are kept.
    pub kept_in: PathBuf,
}

/// Replaces a damaged store by one with everything in it that can be read, and keeps the damaged files beside it. Does
/// nothing, and returns nothing, if the store is not damaged.
///
/// # Errors
/// As [`super::Journal::open`], but not for damage.
pub fn salvage(path: &Path) -> Result<Option<Salvaged>, BackendError> {
    match look(&Machine, path)?.start(path) {
        Ok(start) if start.loaded.objects.iter().all(|(key, _, json)| is_sound(key, json)) => {
            return Ok(None);
        }
        Ok(_) => {}
        Err(BackendError::Damaged { .. }) => {}
        Err(other) => return Err(other),
    }
    let (loaded, lost) = recover(look(&Machine, path)?);
    let kept_in = keep(path, "damaged").map_err(|error| failed(path, &error))?;
    let objects = loaded.objects.len();
    replace(path, loaded.revision.saturating_add(LEAP), &loaded.objects)?;
    Ok(Some(Salvaged { objects, lost, kept_in }))
}

/// Puts the objects of a backup into the place of whatever is there, and keeps that beside it. Returns how many objects, and
/// where the files are that were there before, if any were.
///
/// # Errors
/// When the backup is damaged or incomplete; then nothing is changed. As [`super::Journal::open`], but not for damage.
pub fn restore(path: &Path, backup: Bytes) -> Result<(usize, Option<PathBuf>), BackendError> {
    let Loaded { revision, objects } = backup::read(backup).map_err(BackendError::Storage)?;
    // The clients of the store that is there know its revisions.
    let (there, _) = recover(look(&Machine, path)?);
    let kept_in = if path.exists() { Some(keep(path, "replaced")) } else { None };
    let kept_in = kept_in.transpose().map_err(|error| failed(path, &error))?;
    replace(path, revision.max(there.revision).saturating_add(LEAP), &objects)?;
    Ok((objects.len(), kept_in))
}

/// Makes a store of these objects and puts it into the place of whatever is there, at once or not at all. Its journal is
/// made at the next start.
fn replace(path: &Path, revision: u64, objects: &[(String, u64, Bytes)]) -> Result<(), BackendError> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&new, &error)),
        _ => {}
    }
    let store = Redb::open(Arc::new(Machine), &new)?;
    store.fill(Identity::new(), revision, objects.iter().map(|(key, at, json)| (&**key, *at, &**json)))?;
    drop(store);
    let moved = File::open(&new)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| sync_directory(path));
    moved.map_err(|error| failed(path, &error))
}

/// Copies the files of a store into a directory beside it.
fn keep(path: &Path, why: &str) -> io::Result<PathBuf> {
    let parent = path.parent().unwrap_or(path);
    let place = (1u32..)
        .map(|number| parent.join(format!("{why}-{number}")))
        .find(|place| !place.exists())
        .ok_or(io::ErrorKind::AlreadyExists)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&place)?;
    for file in [path.to_owned(), path_of(path, 0), path_of(path, 1)].iter().filter(|file| file.exists()) {
        let copy = place.join(name(file));
        fs::copy(file, &copy)?;
        File::open(&copy)?.sync_all()?;
    }
    File::open(&place)?.sync_all()?;
    Ok(place)
}

/// Everything that a server can go on with, and what was lost. Pure.
fn recover(found: Found) -> (Loaded, Vec<String>) {
    let Gathered { revision, objects, mut unreadable, mut lost } = gather(found);
    let (good, bad): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .map(|(key, (at, json))| (key, at, json))
        .partition(|(key, _, json)| is_sound(key, json));
    unreadable.extend(bad.into_iter().map(|(key, ..)| key));
    lost.extend(unreadable.into_iter().map(|key| format!("object {key}")));
    (Loaded { revision, objects: good }, lost)
}

/// What was found in file and journal.
pub(super) struct Gathered {
    /// The last revision that anybody can know.
    revision: u64,
    pub(super) objects: BTreeMap<String, (u64, Bytes)>,
    /// Keys of objects that are there and cannot be read.
    unreadable: BTreeSet<String>,
    /// What else is not there, in words.
    lost: Vec<String>,
}

/// Puts together whatever can be read.
pub(super) fn gather(found: Found) -> Gathered {
    let Found { seen, logs } = found;
    let known = seen.head.map_or(0, |head| head.revision);
    let mut lost: Vec<String> = seen.damage.iter().map(|why| format!("objects.redb: {why}")).collect();
    let mut unreadable: BTreeSet<String> = seen.unreadable.into_iter().collect();
    let journal = match seen.head {
        Some(head) if head.format < FORMAT => old_writes(&logs, known),
        head => writes(&logs, head.and_then(|head| head.identity), known, &mut lost),
    };
    let mut revision = known.max(journal.answered);
    let mut objects: BTreeMap<String, (u64, Bytes)> =
        seen.objects.into_iter().map(|(key, at, json)| (key, (at, json))).collect();
    for write in journal.writes {
        revision = revision.max(write.revision);
        if objects.get(&write.key).is_some_and(|(at, _)| *at >= write.revision) {
            continue;
        }
        // The journal has a whole version, or knows that it is gone.
        unreadable.remove(&write.key);
        match write.value {
            Some(json) => objects.insert(write.key, (write.revision, json)),
            None => objects.remove(&write.key),
        };
    }
    revision = objects.values().map(|(at, _)| *at).fold(revision, u64::max);
    Gathered { revision, objects, unreadable, lost }
}

/// Whether a server can go on with it.
fn is_sound(key: &str, json: &[u8]) -> bool {
    Key::decode(key).is_some() && serde_json::from_slice::<Value>(json).is_ok()
}

#[derive(Default)]
struct Readable {
    writes: Vec<Write>,
    /// Up to here writes were certainly acknowledged.
    answered: u64,
}

fn writes(logs: &[Bytes; 2], identity: Option<Identity>, known: u64, lost: &mut Vec<String>) -> Readable {
    let Some(identity) = identity.or_else(|| logs.iter().find_map(|log| log::owner(log))) else {
        return Readable::default();
    };
    let contents = logs.each_ref().map(|log| log::contents(&identity, log));
    let answered = contents.iter().map(|log| log.sealed).max().unwrap_or(0);
    let mut records: Vec<Record> = contents.into_iter().flat_map(|log| log.records).collect();
    records.retain(|record| record.last() > known);
    records.sort_by_key(Record::last);
    let mut reached = known;
    for record in &records {
        if record.previous > reached {
            lost.push(format!(
                "writes of the journal after revision {reached}, up to revision {}",
                record.previous
            ));
        }
        reached = record.last();
    }
    if reached < answered {
        lost.push(format!("writes of the journal after revision {reached}, up to revision {answered}"));
    }
    Readable { writes: records.into_iter().flat_map(|record| record.writes).collect(), answered }
}

/// Every record of layout 2, wherever it stands.
fn old_writes(logs: &[Bytes; 2], known: u64) -> Readable {
    let mut writes: Vec<Write> = Vec::new();
    for log in logs {
        let mut at = 0;
        while at < log.len() {
            match old::decode(log, at) {
                Some((batch, length)) => {
                    writes.extend(batch.into_iter().filter(|write| write.revision > known));
                    at += length;
                }
                None => at += 1,
            }
        }
    }
    writes.sort_by_key(|write| write.revision);
    let answered = writes.last().map_or(0, |write| write.revision);
    Readable { writes, answered }
}
