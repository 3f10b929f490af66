//! What is on the disk at a start, and whether it can be gone on with.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use super::log::{self, Contents, START};
use super::record::Record;
use super::{chain, old, path_of};
use crate::store::backend::{BackendError, Loaded, Write};
use crate::store::files::Files;
use crate::store::identity::Identity;
use crate::store::redb::inspect::{Seen, inspect};
use crate::store::redb::{FORMAT, Head, damaged};

/// Everything on the disk, as it was found.
pub(super) struct Found {
    pub(super) seen: Seen,
    pub(super) logs: [Bytes; 2],
}

/// How to go on.
pub(super) struct Start {
    pub(super) identity: Identity,
    /// All objects, those included that only the journal has.
    pub(super) loaded: Loaded,
    pub(super) journal: JournalStart,
    /// Whether the file of the object store has to be begun anew.
    pub(super) unborn: bool,
}

pub(super) enum JournalStart {
    /// There is no journal of this layout yet. `fill`: nor is the object store of this layout.
    Make { fill: bool },
    /// What only the journal has, where each log ends, and which takes writes.
    Use { writes: Vec<Write>, ends: [u64; 2], active: usize },
}

/// Reads everything, and changes nothing.
pub(super) fn look(files: &dyn Files, path: &Path) -> Result<Found, BackendError> {
    let seen = inspect(files, path)?;
    Ok(Found { seen, logs: [log::read(files, &path_of(path, 0))?, log::read(files, &path_of(path, 1))?] })
}

impl Found {
    /// Decides how to go on, or says what is damaged.
    pub(super) fn start(self, path: &Path) -> Result<Start, BackendError> {
        let file = name(path);
        // The first start was cut off before there was anything to lose.
        let unborn = self.seen.unborn && !self.logs.iter().any(is_used);
        if let Some(damage) = self.seen.damage.as_ref().filter(|_| !unborn) {
            return Err(damaged(path, format!("{file}: {damage}")));
        }
        if let Some(key) = self.seen.unreadable.first() {
            let count = self.seen.unreadable.len();
            return Err(damaged(path, format!("{file}: {count} object(s) cannot be read, {key:?} for one")));
        }
        match self.seen.head {
            None => self.anew(path),
            Some(head) if head.format < FORMAT => self.upgrade(path, head),
            Some(head) => self.go_on(path, head),
        }
    }

    /// An empty file is a new one, unless a journal says that there was more in it.
    fn anew(self, path: &Path) -> Result<Start, BackendError> {
        if self.logs.iter().any(is_used) {
            let file = name(path);
            return Err(damaged(path, format!("{file} is empty or missing, although its journal is there")));
        }
        let journal = JournalStart::Make { fill: true };
        let unborn = self.seen.unborn;
        Ok(Start { identity: Identity::new(), loaded: Loaded::default(), journal, unborn })
    }

    /// A directory of a release before.
    fn upgrade(self, path: &Path, head: Head) -> Result<Start, BackendError> {
        if self.logs.iter().any(|log| log::owner(log).is_some()) {
            // redb went back to the transaction before the upgrade.
            return Err(damaged(path, format!("{} is older than its journal", name(path))));
        }
        let mut writes = Vec::new();
        for (number, log) in self.logs.iter().enumerate() {
            let replayed = old::replay(log, head.revision);
            if replayed.broken {
                let file = name(&path_of(path, number));
                return Err(damaged(path, format!("{file}: newer writes stand behind damaged ones")));
            }
            writes.extend(replayed.writes);
        }
        writes.sort_by_key(|write| write.revision);
        let loaded = merged(head.revision, self.seen.objects, &writes);
        let journal = JournalStart::Make { fill: true };
        Ok(Start { identity: Identity::new(), loaded, journal, unborn: false })
    }

    fn go_on(self, path: &Path, head: Head) -> Result<Start, BackendError> {
        let known = head.revision;
        let identity =
            head.identity.ok_or_else(|| damaged(path, format!("{} has no identity", name(path))))?;
        if !head.journaled && !self.logs.iter().any(|log| is_ahead(&identity, log, known)) {
            // Nothing was written yet with this journal: what the logs hold is of another time.
            let loaded = Loaded { revision: known, objects: self.seen.objects };
            let journal = JournalStart::Make { fill: false };
            return Ok(Start { identity, loaded, journal, unborn: false });
        }
        for (number, log) in self.logs.iter().enumerate() {
            let file = name(&path_of(path, number));
            match log::owner(log) {
                Some(owner) if owner == identity => {}
                Some(_) => {
                    return Err(damaged(
                        path,
                        format!("{file} belongs to another store than {}", name(path)),
                    ));
                }
                None if log.is_empty() => return Err(damaged(path, format!("{file} is empty or missing"))),
                None => return Err(damaged(path, format!("the first bytes of {file} are damaged"))),
            }
        }
        let contents = self.logs.each_ref().map(|log| log::contents(&identity, log));
        let ends = contents.each_ref().map(|log| end(log, known));
        let newest = contents.each_ref().map(|log| log.records.iter().map(Record::last).max());
        let active = usize::from(newest.last() > newest.first());
        let answered = contents.iter().map(|log| log.sealed).max().unwrap_or(0);
        let records = contents.into_iter().flat_map(|log| log.records).collect();
        let writes = chain::link(known, records, answered).map_err(|gap| damaged(path, gap.to_string()))?;
        let loaded = merged(known, self.seen.objects, &writes);
        let journal = JournalStart::Use { writes, ends, active };
        Ok(Start { identity, loaded, journal, unborn: false })
    }
}

/// Whether a log belongs to a store, of this layout or of the one before.
fn is_used(log: &Bytes) -> bool {
    log::owner(log).is_some() || !old::replay(log, 0).writes.is_empty()
}

/// Whether a log of a store has more than the object store. redb goes back to the transaction before if the last is damaged, and
/// then does not know of its journal any more.
fn is_ahead(identity: &Identity, log: &Bytes, known: u64) -> bool {
    let contents = log::contents(identity, log);
    contents.sealed > known || contents.records.iter().any(|record| record.last() > known)
}

/// Where a log ends, of which the object store has all up to a revision.
fn end(log: &Contents, known: u64) -> u64 {
    let needed = log.records.iter().filter(|record| record.last() > known);
    needed.map(|record| record.end as u64).max().unwrap_or(START)
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Objects with later writes made to them.
pub(super) fn merged(revision: u64, objects: Vec<(String, u64, Bytes)>, writes: &[Write]) -> Loaded {
    if writes.is_empty() {
        return Loaded { revision, objects };
    }
    let last = writes.last().map_or(revision, |write| write.revision.max(revision));
    let mut all: BTreeMap<String, (u64, Bytes)> =
        objects.into_iter().map(|(key, revision, value)| (key, (revision, value))).collect();
    for write in writes {
        match &write.value {
            Some(value) => all.insert(write.key.clone(), (write.revision, value.clone())),
            None => all.remove(&write.key),
        };
    }
    let objects = all.into_iter().map(|(key, (revision, value))| (key, revision, value)).collect();
    Loaded { revision: last, objects }
}
