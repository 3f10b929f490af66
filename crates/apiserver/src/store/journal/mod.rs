//! A journal in front of the object store: a write is durable when its batch stands in a log, one short write to the
//! end of a file. The object store gets many batches in one transaction, later.
//!
//! There are two logs. One takes writes; when it is long enough the other takes over, and a thread puts what is in the
//! first into the object store. What the store has is known by its revision, so that the logs need no word about it: at
//! the next start all that is newer is read from them. Records name the one before them, so that none can be missing
//! unnoticed.

pub(super) mod batch;
mod chain;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod full;
mod log;
mod old;
mod opening;
pub(super) mod record;
#[cfg(test)]
mod rescue_tests;
mod salvage;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use self::log::{Log, Room, Space};
use self::opening::{JournalStart, Start, merged};
pub use self::salvage::{Salvaged, restore, salvage};
use super::backend::{Backend, BackendError, Loaded, Write};
use super::files::{Files, Machine};
use super::identity::Identity;
pub use super::redb::inspect::THREAD as CHECK_THREAD;
use super::redb::{Redb, failed};

/// A log of this size is put into the object store. Larger ones take more memory, and time at the next start; smaller
/// ones more transactions.
const LONG: u64 = 1 << 20;
/// A record that was longer gives its memory back.
const KEPT: usize = 256 << 10;
/// How soon the object store is tried again that did not take a log.
const AGAIN: Duration = Duration::from_secs(1);

/// Durable storage: the object store in a file, and its journal beside it.
pub struct Journal {
    shared: Arc<Shared>,
    mover: Option<JoinHandle<()>>,
}

struct Shared {
    store: Redb,
    identity: Identity,
    room: Room,
    state: Mutex<State>,
    /// Rung when there is something for the mover, or the end has come.
    bell: Condvar,
}

struct State {
    logs: [Log; 2],
    /// Which of the logs takes writes.
    active: usize,
    /// What is in the log that takes writes and, as far as is known, not in the object store.
    fresh: Vec<Write>,
    /// What is being put into the object store. The other log is needed until that is done.
    moving: Arc<Vec<Write>>,
    ending: bool,
    /// The last revision that was answered.
    reached: u64,
    /// What was found at the start, until it is asked for or changed.
    loaded: Option<Loaded>,
    /// The record that is being made.
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

fn path_of(store: &Path, log: usize) -> PathBuf {
    store.with_extension(format!("journal-{log}"))
}

impl Journal {
    /// Opens the object store in this file, and its journal beside it; creates what is missing.
    ///
    /// # Errors
    /// [`BackendError::Newer`] when a newer binary wrote it, [`BackendError::Damaged`] when something that was written is
    /// not there, [`BackendError::Storage`] when it or its journal cannot be opened, or is open in another process,
    /// [`BackendError::Full`] when a new one finds no space, or one of an older layout. Otherwise a full disk is no reason:
    /// all that was answered is there, and the journal has space for deletions.
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        Self::with(Arc::new(Machine), path, LONG)
    }

    fn with(files: Arc<dyn Files>, path: &Path, long: u64) -> Result<Self, BackendError> {
        let room = Room { long };
        let start = opening::look(&*files, path)?.start(path)?;
        if start.unborn {
            let file = files.create(path).map_err(|error| failed(path, &error))?;
            file.set_len(0).map_err(|error| failed(path, &error))?;
        }
        let store = Redb::open(Arc::clone(&files), path)?;
        let (identity, state) = prepare(&*files, path, room, &store, start)?;
        let shared =
            Arc::new(Shared { store, identity, room, state: Mutex::new(state), bell: Condvar::new() });
        // The disk may be full: then all of this stays where it is, and is tried again.
        if !shared.lock().moving.is_empty() {
            shared.try_move();
        }
        if shared.lock().moving.is_empty() {
            shared.lock().logs.iter_mut().for_each(Log::restart);
        }
        let mover = {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("journal".into());
            thread.spawn(move || shared.run()).map_err(|error| failed(path, &error))?
        };
        Ok(Self { shared, mover: Some(mover) })
    }
}

/// Opens the logs, or makes them, and whatever else a new store or one of an older layout needs.
fn prepare(
    files: &dyn Files,
    path: &Path,
    room: Room,
    store: &Redb,
    start: Start,
) -> Result<(Identity, State), BackendError> {
    let Start { identity, loaded, journal, .. } = start;
    let paths = [path_of(path, 0), path_of(path, 1)];
    let (logs, active, writes) = match journal {
        JournalStart::Make { fill } => {
            if fill {
                let objects = loaded.objects.iter().map(|(key, revision, json)| (&**key, *revision, &**json));
                store.fill(identity, loaded.revision, objects)?;
            }
            let make = |path: &PathBuf| Log::create(files, path, room, &identity, loaded.revision);
            let [first, second] = paths.each_ref().map(make);
            let logs = [first?, second?];
            store.set_journaled()?;
            (logs, 0, Vec::new())
        }
        JournalStart::Use { writes, ends: [first, second], active } => {
            let [a, b] = &paths;
            ([Log::open(files, a, room, first)?, Log::open(files, b, room, second)?], active, writes)
        }
    };
    let state = State {
        logs,
        active,
        fresh: Vec::new(),
        moving: Arc::new(writes),
        ending: false,
        reached: loaded.revision,
        loaded: Some(loaded),
        buffer: Vec::new(),
    };
    Ok((identity, state))
}

impl State {
    /// The next try takes what came since: of an object that was deleted meanwhile nothing has to be stored.
    fn gather(&mut self) {
        if !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            self.moving = Arc::new(newest(&self.moving).into_iter().chain(fresh).collect());
        }
    }
}

impl Shared {
    /// Every change of the state is whole before anything can fail.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves logs into the object store until the end.
    fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.moving.is_empty() && !state.ending {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.ending {
                return;
            }
            drop(state);
            if !self.try_move() {
                let state = self.lock();
                drop(self.bell.wait_timeout_while(state, AGAIN, |state| !state.ending));
            }
        }
    }

    /// Puts what is to be moved into the object store, and says whether that went well.
    fn try_move(&self) -> bool {
        let moving = Arc::clone(&self.lock().moving);
        // Whatever happens in there, the journal has it all.
        let moved = catch_unwind(AssertUnwindSafe(|| self.store.commit(&newest(&moving))));
        match moved.unwrap_or_else(|_| Err(BackendError::Storage("the object store panicked".into()))) {
            Ok(()) => {
                self.lock().moving = Arc::default();
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the journal stays as it is; it will be tried again");
                self.lock().gather();
                false
            }
        }
    }

    /// Makes a batch durable.
    fn append(&self, batch: &[Write], space: Space) -> Result<(), BackendError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.loaded = None;
        let State { logs: [first, second], active, buffer, reached, .. } = &mut *state;
        let (log, other) = if *active == 0 { (first, second) } else { (second, first) };
        buffer.clear();
        record::encode(&self.identity, *reached, batch, buffer)
            .ok_or_else(|| BackendError::Storage("an object is too large to be stored".into()))?;
        log.append(buffer, space).map_err(|error| failed(&log.path, &error))?;
        *reached = batch.last().map_or(*reached, |write| write.revision);
        if let Err(error) = other.seal(&self.identity, *reached) {
            // The writes are durable; only damage to the last of them would go unnoticed.
            tracing::warn!(%error, path = %other.path.display(), "cannot note in the journal what was acknowledged");
        }
        let long = log.size() >= self.room.long;
        buffer.shrink_to(KEPT);
        state.fresh.extend_from_slice(batch);
        if long {
            self.turn(&mut state);
        }
        Ok(())
    }

    /// Takes the other log into use if that is free.
    fn turn(&self, state: &mut State) {
        if !state.moving.is_empty() {
            return;
        }
        state.moving = Arc::new(std::mem::take(&mut state.fresh));
        state.active = 1 - state.active;
        if let Some(log) = state.logs.get_mut(state.active) {
            log.restart();
        }
        self.bell.notify_one();
    }
}

/// The last write of each object, in the order of revisions.
fn newest(writes: &[Write]) -> Vec<Write> {
    let mut last: HashMap<&str, &Write> = HashMap::with_capacity(writes.len());
    for write in writes {
        last.insert(&write.key, write);
    }
    let mut writes: Vec<Write> = last.into_values().cloned().collect();
    writes.sort_unstable_by_key(|write| write.revision);
    writes
}

impl Backend for Journal {
    fn load(&self) -> Result<Loaded, BackendError> {
        // First the journal: what is moved in between is seen twice, and not never.
        let (moving, fresh) = {
            let mut state = self.shared.lock();
            if let Some(loaded) = state.loaded.take() {
                return Ok(loaded);
            }
            (Arc::clone(&state.moving), state.fresh.clone())
        };
        let loaded = self.shared.store.load()?;
        let writes: Vec<Write> = moving.iter().cloned().chain(fresh).collect();
        Ok(merged(loaded.revision, loaded.objects, &writes))
    }

    fn commit(&self, batch: &[Write]) -> Result<(), BackendError> {
        self.shared.append(batch, Space::Usual)
    }

    fn commit_from_reserve(&self, batch: &[Write]) -> Result<(), BackendError> {
        self.shared.append(batch, Space::Reserve)
    }

    fn blocks(&self) -> bool {
        true
    }
}

impl Drop for Journal {
    /// Leaves all in the object store, if that takes it; otherwise the journal has it.
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.bell.notify_all();
        if let Some(mover) = self.mover.take()
            && mover.join().is_err()
        {
            tracing::error!("the thread of the journal did not end well");
        }
        let mut state = self.shared.lock();
        let fresh = std::mem::take(&mut state.fresh);
        let rest: Vec<Write> = state.moving.iter().cloned().chain(fresh).collect();
        if !rest.is_empty() {
            state.moving = Arc::new(rest);
            drop(state);
            self.shared.try_move();
        }
    }
}
