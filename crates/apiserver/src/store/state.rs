//! Everything behind the store's lock, and the rules by which it changes. Nothing here waits.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backend::{BackendError, Loaded, Write};
use super::draft::Draft;
use super::history::{History, Past};
use super::key::Key;
use super::stored::{self, Event, EventKind, Stored};
use super::table::Table;

/// What a decision makes of an object.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Nothing changes; no revision is used.
    Keep,
    /// This is the new version. The store stamps the revision.
    Put(Value),
    /// The object goes; this is its last state.
    Remove(Value),
    /// This is the new version, written already: for those who may be asked more than once.
    Drafted(Arc<Draft>),
}

/// An outcome that changes something, ready for its revision.
pub(super) struct Ready {
    removes: bool,
    draft: Arc<Draft>,
}

impl Outcome {
    /// Does the work that needs no lock; nothing if nothing changes.
    pub(super) fn ready(self) -> Result<Option<Ready>, serde_json::Error> {
        let (removes, draft) = match self {
            Self::Keep => return Ok(None),
            Self::Put(object) => (false, Arc::new(Draft::of(&object)?)),
            Self::Remove(object) => (true, Arc::new(Draft::of(&object)?)),
            Self::Drafted(draft) => (false, draft),
        };
        Ok(Some(Ready { removes, draft }))
    }
}

/// A write that has its revision but is not durable yet.
pub(super) struct Decided {
    pub(super) event: Arc<Event>,
    /// Told once the write is durable, or why it is not.
    pub(super) answer: oneshot::Sender<Result<(), BackendError>>,
}

impl Decided {
    /// Whether this write leads to less: its object goes, or waits only for its finalizers and its grace period.
    fn lets_go(&self) -> bool {
        self.event.kind == EventKind::Deleted || self.event.object.deleting
    }

    pub(super) fn write(&self) -> Write {
        write_of(&self.event)
    }
}

pub(super) fn write_of(event: &Event) -> Write {
    Write {
        revision: event.object.revision,
        key: event.object.key.to_string(),
        value: (event.kind != EventKind::Deleted).then(|| event.object.bytes.clone()),
    }
}

/// The state.
///
/// Readers and watchers see `tables`, which hold only what is durable. Writers decide against `head` first, so that
/// a write may build on one that is still on its way to the disk.
pub(super) struct State {
    pub(super) tables: HashMap<Arc<str>, Table>,
    pub(super) head: HashMap<Key, (u64, Option<Arc<Stored>>)>,
    pub(super) queue: Vec<Decided>,
    pub(super) committing: bool,
    /// The task that commits, and any before it that has not quite ended: each holds the backend until then.
    pub(super) committers: Vec<JoinHandle<()>>,
    /// The last revision given to a write.
    pub(super) assigned: u64,
    /// The last revision readers may see.
    pub(super) published: u64,
    /// Where the history of a table without one begins.
    pub(super) base: u64,
    pub(super) past: Past,
    /// Counts commits that ended, well or not.
    pub(super) progress: watch::Sender<u64>,
    /// Get every published event, for the server's own controllers.
    pub(super) feeds: Vec<mpsc::UnboundedSender<Arc<Event>>>,
}

impl State {
    pub(super) fn load(loaded: Loaded, history: History) -> Result<Self, BackendError> {
        let mut tables: HashMap<Arc<str>, Table> = HashMap::new();
        for (text, revision, bytes) in loaded.objects {
            let unreadable = |why: String| {
                BackendError::Storage(format!(
                    "object {text:?} is unreadable: {why}. Start `trainyard up --salvage` to go on without it"
                ))
            };
            let mut key = Key::decode(&text).ok_or_else(|| unreadable("not a key".into()))?;
            if let Some((table, _)) = tables.get_key_value(key.table()) {
                key = Key::new(table, key.namespace(), key.name());
            }
            let table = Arc::clone(key.table());
            let stored = stored::load(key, revision, bytes).map_err(|e| unreadable(e.to_string()))?;
            tables.entry(table).or_insert_with(|| Table::new(loaded.revision)).load(stored);
        }
        Ok(Self {
            tables,
            head: HashMap::new(),
            queue: Vec::new(),
            committing: false,
            committers: Vec::new(),
            assigned: loaded.revision,
            published: loaded.revision,
            base: loaded.revision,
            past: Past::new(history),
            progress: watch::Sender::new(0),
            feeds: Vec::new(),
        })
    }

    pub(super) fn table_mut(&mut self, name: &Arc<str>) -> &mut Table {
        let base = self.base;
        self.tables.entry(Arc::clone(name)).or_insert_with(|| Table::new(base))
    }

    /// The newest version, durable or not: what a write is decided against.
    pub(super) fn latest(&self, key: &Key) -> Option<&Arc<Stored>> {
        match self.head.get(key) {
            Some((_, pending)) => pending.as_ref(),
            None => self.tables.get(key.table())?.get(key.path()),
        }
    }

    /// Whether the newest version still waits for its commit.
    pub(super) fn is_pending(&self, key: &Key) -> bool {
        self.head.contains_key(key)
    }

    /// Gives a decision its revision and serialises it. Nothing is visible yet.
    pub(super) fn decide(&mut self, key: &Key, ready: &Ready) -> Option<Event> {
        let previous = self.latest(key).cloned();
        let kind = match (ready.removes, &previous) {
            (true, None) => return None,
            (false, None) => EventKind::Added,
            (false, Some(_)) => EventKind::Modified,
            (true, Some(_)) => EventKind::Deleted,
        };
        let api_version = self.table_mut(key.table()).intern(&ready.draft.api_version);
        let event = stored::event(kind, key, self.assigned + 1, &ready.draft, api_version, previous);
        self.assigned += 1;
        Some(event)
    }

    /// Puts a decided write where later decisions see it, to wait for its commit.
    pub(super) fn enqueue(&mut self, decided: Decided) {
        self.remember(&decided);
        self.queue.push(decided);
    }

    fn remember(&mut self, decided: &Decided) {
        let object = &decided.event.object;
        let pending = (decided.event.kind != EventKind::Deleted).then(|| Arc::clone(object));
        self.head.insert(object.key.clone(), (object.revision, pending));
    }

    /// Makes a durable event visible to readers and watchers.
    pub(super) fn publish(&mut self, event: &Arc<Event>) {
        let object = &event.object;
        if self.head.get(&object.key).is_some_and(|(revision, _)| *revision == object.revision) {
            self.head.remove(&object.key);
        }
        self.published = object.revision;
        let events = self.past.limits.events;
        self.table_mut(object.key.table()).apply(Arc::clone(event), events);
        self.past.add(event, Instant::now());
        self.forget();
        // A closed feed means its controllers were shut down; the store works on without them.
        self.feeds.retain(|feed| feed.send(Arc::clone(event)).is_ok());
    }

    /// Forgets the events that are beyond the limits of the history.
    pub(super) fn forget(&mut self) {
        let now = Instant::now();
        while let Some((table, revision)) = self.past.next_to_go(now) {
            if let Some(table) = self.tables.get_mut(&table) {
                table.forget(revision);
            }
        }
    }

    /// Forgets every write that is not durable, also those decided on top of one that failed.
    pub(super) fn roll_back(&mut self) -> Vec<Decided> {
        self.head.clear();
        std::mem::take(&mut self.queue)
    }

    /// Forgets every write that is not durable, but for those that let an object go which nothing else in the queue
    /// touches: they were decided on what is durable. Returns those, and the others.
    pub(super) fn keep_deletions(&mut self, batch: Vec<Decided>) -> (Vec<Decided>, Vec<Decided>) {
        let all: Vec<Decided> = batch.into_iter().chain(self.roll_back()).collect();
        let mut writes: HashMap<Key, u32> = HashMap::with_capacity(all.len());
        for decided in &all {
            *writes.entry(decided.event.object.key.clone()).or_default() += 1;
        }
        let alone = |key: &Key| writes.get(key) == Some(&1);
        let (going, refused): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|decided| decided.lets_go() && alone(&decided.event.object.key));
        going.iter().for_each(|decided| self.remember(decided));
        (going, refused)
    }

    pub(super) fn ended(&self) {
        self.progress.send_modify(|n| *n = n.wrapping_add(1));
    }
}
