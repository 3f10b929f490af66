//! Where objects live: an in-memory index that answers every read, over a [`Backend`] that makes writes durable.
//!
//! A write is decided outside the lock on the newest version of its object, then submitted under the lock if that
//! version is still the newest; otherwise it is decided again. What is submitted waits in a queue for one commit
//! together with all others that came meanwhile (group commit), and becomes visible when that commit is durable.

pub mod backend;
pub mod backup;
mod commit;
mod draft;
#[cfg(test)]
mod faulty;
mod files;
pub mod history;
mod identity;
pub mod journal;
mod key;
pub mod memory;
mod redb;
mod state;
mod stored;
mod table;

use serde_json::Value;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{mpsc, oneshot, watch};

use self::backend::{Backend, BackendError};
pub use self::draft::Draft;
use self::history::History;
pub use self::key::Key;
pub use self::state::Outcome;
use self::state::{Decided, Ready, State, write_of};
pub(crate) use self::stored::contains;
pub use self::stored::{Event, EventKind, Stored};
pub use self::table::{Gone, Page, Range};

/// What became of a write.
#[derive(Debug)]
pub enum Written {
    /// Nothing was to be changed; this is what is there, if anything.
    Kept(Option<Arc<Stored>>),
    /// This version is durable.
    Put(Arc<Stored>),
    /// The object is gone; this was its last state.
    Removed(Arc<Stored>),
}

/// The store. Cloning shares it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    state: RwLock<State>,
    backend: Box<dyn Backend>,
}

impl Drop for Shared {
    /// Frees the objects on a thread that nobody waits for: a process that ends has no use for their memory, and there
    /// may be millions. The backend is closed here, as ever.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (tables, head) = (std::mem::take(&mut state.tables), std::mem::take(&mut state.head));
        let freeing = std::thread::Builder::new().name("free".into()).spawn(move || drop((tables, head)));
        // Without a thread they were freed by the attempt.
        drop(freeing);
    }
}

/// Counts, for health pages and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Live objects of all resources.
    pub objects: usize,
    /// The last published revision.
    pub revision: u64,
}

enum Submitted {
    /// The object changed since the decision.
    Stale,
    /// Durable and visible.
    Done(Arc<Event>),
    /// On its way to the disk.
    Waiting(Arc<Event>, oneshot::Receiver<Result<(), BackendError>>),
    Nothing,
}

impl Shared {
    // A panic while the lock is held would be a bug of this module; its state is only ever replaced by whole
    // steps, so readers may go on.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Reads everything a backend has. `history` is how much of the past is kept for watchers.
    pub fn open(backend: Box<dyn Backend>, history: impl Into<History>) -> Result<Self, BackendError> {
        let state = State::load(backend.load()?, history.into())?;
        Ok(Self { shared: Arc::new(Shared { state: RwLock::new(state), backend }) })
    }

    /// Writes objects that are not there yet, before the store is in use. Blocks as long as the backend does.
    pub fn seed(&self, mut objects: Vec<(Key, Value)>) -> Result<(), BackendError> {
        objects.retain(|(key, _)| self.latest(key).is_none());
        self.amend(objects)
    }

    /// Writes objects, whatever is there, in one commit, before the store is in use. Blocks as long as the backend does.
    /// Where the disk is full it does without them: a server that starts shows what there is, and lets it be deleted. The
    /// next start tries again.
    pub fn amend(&self, objects: Vec<(Key, Value)>) -> Result<(), BackendError> {
        if objects.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.write();
        let mut events = Vec::with_capacity(objects.len());
        for (key, object) in objects {
            let ready = Outcome::Put(object).ready().map_err(unserialisable)?;
            events.extend(ready.and_then(|ready| state.decide(&key, &ready)).map(Arc::new));
        }
        let writes: Vec<_> = events.iter().map(|event| write_of(event)).collect();
        let full = |error: &BackendError| matches!(error, BackendError::Full { .. });
        let done = self.shared.backend.commit(&writes);
        let done = match done {
            Err(error) if full(&error) => self.shared.backend.commit_from_reserve(&writes),
            other => other,
        };
        match done {
            Err(error) if full(&error) => {
                let keys: Vec<&str> = writes.iter().map(|write| write.key.as_str()).collect();
                tracing::warn!(%error, ?keys, "objects of the server could not be written; the next start tries again");
                return Ok(());
            }
            other => other?,
        }
        for event in &events {
            state.publish(event);
        }
        Ok(())
    }

    /// The published version of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.shared.read().tables.get(key.table())?.get(key.path()).cloned()
    }

    /// The newest version, perhaps not durable yet. Only for decisions about writes.
    pub fn latest(&self, key: &Key) -> Option<Arc<Stored>> {
        self.shared.read().latest(key).cloned()
    }

    /// The last published revision.
    pub fn revision(&self) -> u64 {
        self.shared.read().published
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        let state = self.shared.read();
        Stats { objects: state.tables.values().map(table::Table::len).sum(), revision: state.published }
    }

    /// A page of the current state.
    pub fn page(&self, table: &str, range: Range<'_>) -> Page {
        let state = self.shared.read();
        let (items, more) = state.tables.get(table).map(|t| t.page(range)).unwrap_or_default();
        Page { items, more, revision: state.published }
    }

    /// A page of the state at an older revision, if the history reaches back so far.
    pub fn page_at(&self, table: &str, range: Range<'_>, revision: u64) -> Result<Page, Gone> {
        let state = self.shared.read();
        let (items, more) = match state.tables.get(table) {
            Some(table) => table.page_at(range, revision)?,
            None if revision < state.base => return Err(Gone(state.base)),
            None => Default::default(),
        };
        Ok(Page { items, more, revision })
    }

    /// How many objects a table has.
    pub fn len(&self, table: &str) -> usize {
        self.shared.read().tables.get(table).map_or(0, table::Table::len)
    }

    /// How many objects a range has.
    pub fn count(&self, table: &str, range: Range<'_>) -> usize {
        self.shared.read().tables.get(table).map_or(0, |t| t.count(range))
    }

    /// Every object of every table. For the controllers' first look.
    pub fn everything(&self) -> Vec<Arc<Stored>> {
        self.shared.read().tables.values().flat_map(table::Table::all).cloned().collect()
    }

    /// Every object as it is at one revision, and that revision.
    pub fn snapshot(&self) -> (u64, Vec<Arc<Stored>>) {
        let state = self.shared.read();
        (state.published, state.tables.values().flat_map(table::Table::all).cloned().collect())
    }

    /// Events of a table after a revision, and the revision up to which the answer is complete.
    pub fn since(&self, table: &str, after: u64, max: usize) -> Result<(Vec<Arc<Event>>, u64), Gone> {
        let state = self.shared.read();
        let events = match state.tables.get(table) {
            Some(table) => table.since(after, max)?,
            None if after < state.base => return Err(Gone(state.base)),
            None => Vec::new(),
        };
        let reached = match events.last() {
            Some(last) if events.len() == max => last.object.revision,
            _ => state.published.max(after),
        };
        Ok((events, reached))
    }

    /// Wakes when a table gets an event; closes with [`Store::close_watches`].
    pub fn subscribe(&self, table: &Arc<str>) -> watch::Receiver<u64> {
        self.shared.write().table_mut(table).subscribe()
    }

    /// Wakes when any commit ended.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.shared.read().progress.subscribe()
    }

    /// Every event published from now on.
    pub fn feed(&self) -> mpsc::UnboundedReceiver<Arc<Event>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.write().feeds.push(sender);
        receiver
    }

    /// Ends the watches of a table once they have seen everything, as when its definition is gone.
    pub fn close_watches(&self, table: &str) {
        if let Some(table) = self.shared.write().tables.get_mut(table) {
            table.close_watches();
        }
    }

    /// Waits until no write is on its way to the disk and nothing but clones of this store hold the backend.
    pub async fn idle(&self) {
        loop {
            let committers = std::mem::take(&mut self.shared.write().committers);
            if committers.is_empty() {
                return;
            }
            for committer in committers {
                if let Err(error) = committer.await {
                    tracing::error!(%error, "the committer did not end well");
                }
            }
        }
    }

    /// Changes one object by compare and swap: `decide` sees the newest version and is asked again if another
    /// write came in between, so it must have no effects of its own.
    ///
    /// `alive` are objects (the namespace, the definition) that must exist and not be deleting at the moment of the
    /// write; `decide` is asked again when one is not, and is expected to say so.
    pub async fn transact<E: From<BackendError>>(
        &self,
        key: &Key,
        alive: &[Key],
        mut decide: impl FnMut(Option<&Stored>) -> Result<Outcome, E>,
    ) -> Result<Written, E> {
        loop {
            let (seen, pending, mut progress) = {
                let state = self.shared.read();
                (state.latest(key).cloned(), state.is_pending(key), state.progress.subscribe())
            };
            let outcome = decide(seen.as_deref())?;
            let Some(ready) = outcome.ready().map_err(unserialisable)? else {
                if !pending {
                    return Ok(Written::Kept(seen));
                }
                // What is there may yet be rolled back: wait for its commit, then look again.
                if progress.changed().await.is_err() {
                    return Err(ended().into());
                }
                continue;
            };
            match self.submit(key, alive, seen.as_deref(), &ready)? {
                Submitted::Stale => {}
                Submitted::Nothing => return Ok(Written::Kept(None)),
                Submitted::Done(event) => return Ok(written(&event)),
                Submitted::Waiting(event, answer) => {
                    let durable = answer.await.map_err(|_| ended())?;
                    return durable.map(|()| written(&event)).map_err(Into::into);
                }
            }
        }
    }

    fn submit(
        &self,
        key: &Key,
        alive: &[Key],
        seen: Option<&Stored>,
        ready: &Ready,
    ) -> Result<Submitted, BackendError> {
        let mut state = self.shared.write();
        let unchanged = state.latest(key).map(|s| s.revision) == seen.map(|s| s.revision);
        let alive = alive.iter().all(|key| state.latest(key).is_some_and(|s| !s.deleting));
        if !unchanged || !alive {
            return Ok(Submitted::Stale);
        }
        let Some(event) = state.decide(key, ready) else {
            return Ok(Submitted::Nothing);
        };
        let event = Arc::new(event);
        if !self.shared.backend.blocks() {
            self.shared.backend.commit(&[write_of(&event)])?;
            state.publish(&event);
            state.ended();
            return Ok(Submitted::Done(event));
        }
        let (answer, receiver) = oneshot::channel();
        state.enqueue(Decided { event: Arc::clone(&event), answer });
        if !state.committing {
            state.committing = true;
            let shared = Arc::clone(&self.shared);
            state.committers.retain(|task| !task.is_finished());
            state.committers.push(tokio::task::spawn_blocking(move || commit::run(&shared)));
        }
        Ok(Submitted::Waiting(event, receiver))
    }
}

fn written(event: &Event) -> Written {
    match event.kind {
        EventKind::Added | EventKind::Modified => Written::Put(Arc::clone(&event.object)),
        EventKind::Deleted => Written::Removed(Arc::clone(&event.object)),
    }
}

fn unserialisable(error: serde_json::Error) -> BackendError {
    BackendError::Storage(format!("object cannot be serialised: {error}"))
}

fn ended() -> BackendError {
    BackendError::Storage("the server is shutting down".into())
}
