//! Which job is looked at next, and when.
//!
//! One pure structure: time is an argument, nothing here waits. It holds three promises that a plain channel cannot:
//! a job is never worked on twice at once, a burst of changes is one look, and a namespace with ten thousand jobs
//! does not delay the one job of its neighbour.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trainyard_core::Kind;

/// A moment, as time since the operator started.
pub(crate) type Moment = Duration;

/// Names a job. Ordered, so that everything made from it is the same in every run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Namespace first: jobs of one namespace lie together.
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) kind: KindRef,
}

/// A kind of the catalogue, compared by name.
#[derive(Clone, Copy)]
pub(crate) struct KindRef(pub(crate) &'static Kind);

impl KindRef {
    fn id(self) -> (&'static str, &'static str, &'static str) {
        (self.0.group, self.0.name, self.0.version)
    }
}

impl PartialEq for KindRef {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for KindRef {}

impl PartialOrd for KindRef {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KindRef {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id().cmp(&other.id())
    }
}

impl std::hash::Hash for KindRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl Key {
    pub(crate) fn new(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), kind: KindRef(kind) }
    }

    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind().name, self.namespace, self.name)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How patient the queue is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A job is looked at when nothing has happened to it for this long …
    pub(crate) debounce: Duration,
    /// … but no later than this after the first thing that happened.
    pub(crate) longest_wait: Duration,
    /// Delay after the first error; it doubles with each further one.
    pub(crate) first_retry: Duration,
    /// No retry waits longer.
    pub(crate) longest_retry: Duration,
}

/// What became of a look at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// All is well; look again then, if at all.
    Rest(Option<Moment>),
    /// Something was done: look again soon, for what may follow from it.
    Again,
    /// Something went wrong: look again after a back-off, or at that moment if it is earlier: it is when something is due.
    Retry(Option<Moment>),
    /// There is no such job any more.
    Forget,
}

#[derive(Debug, Default)]
struct Entry {
    place: Place,
    /// Errors in a row.
    failures: u32,
    /// Looks in a row that did something.
    busy: u32,
}

/// Looks in a row that may do something before it is suspected that they undo each other, or are undone by
/// somebody else. From then on they back off as errors do.
const BUSY: u32 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nothing is known to do.
    #[default]
    Idle,
    /// Waits for `at`. `since` is the first change that is not looked at yet, if it is a change that it waits for.
    Waiting { at: Moment, since: Option<Moment> },
    /// Stands in its namespace's line.
    Ready,
    /// Somebody works on it; `again` when something happened meanwhile.
    Running { again: bool },
}

impl Place {
    fn is_pending(self) -> bool {
        matches!(self, Self::Ready | Self::Waiting { since: Some(_), .. })
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pace: Pace,
    entries: BTreeMap<Key, Entry>,
    timers: BTreeSet<(Moment, Key)>,
    lines: BTreeMap<Arc<str>, VecDeque<Key>>,
    turns: VecDeque<Arc<str>>,
    pending: usize,
}

impl Queue {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            lines: BTreeMap::new(),
            turns: VecDeque::new(),
            pending: 0,
        }
    }

    /// Something happened to a job.
    pub(crate) fn add(&mut self, key: &Key, now: Moment) {
        let place = self.entries.get(key).map(|entry| entry.place).unwrap_or_default();
        let place = match place {
            Place::Ready => return,
            Place::Running { .. } => Place::Running { again: true },
            Place::Idle | Place::Waiting { since: None, .. } => {
                Place::Waiting { at: now.saturating_add(self.pace.debounce), since: Some(now) }
            }
            Place::Waiting { since: Some(since), .. } => {
                let latest = since.saturating_add(self.pace.longest_wait);
                Place::Waiting { at: now.saturating_add(self.pace.debounce).min(latest), since: Some(since) }
            }
        };
        self.put(key, place);
    }

    /// The next job to work on. It must be given back with [`Self::done`].
    pub(crate) fn pop(&mut self, now: Moment) -> Option<Key> {
        self.line_up(now);
        let namespace = self.turns.pop_front()?;
        let line = self.lines.get_mut(&namespace)?;
        let key = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.put(&key, Place::Running { again: false });
        Some(key)
    }

    /// Gives a job back.
    pub(crate) fn done(&mut self, key: &Key, now: Moment, next: Next) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let again = entry.place == Place::Running { again: true };
        (entry.failures, entry.busy) = match next {
            Next::Retry(_) => (entry.failures.saturating_add(1), entry.busy),
            Next::Again => (0, entry.busy.saturating_add(1)),
            Next::Rest(_) | Next::Forget => (0, 0),
        };
        let at = match next {
            Next::Rest(at) => at,
            Next::Retry(due) => {
                let back_off = now.saturating_add(self.pace.retry(entry.failures));
                // What was due already has just been tried.
                Some(due.filter(|due| *due > now).map_or(back_off, |due| due.min(back_off)))
            }
            Next::Again if entry.busy > BUSY => Some(now.saturating_add(self.pace.retry(entry.busy - BUSY))),
            Next::Again => Some(now.saturating_add(self.pace.debounce)),
            Next::Forget => None,
        };
        self.put(key, at.map_or(Place::Idle, |at| Place::Waiting { at: at.max(now), since: None }));
        if again {
            self.add(key, now);
        }
        // A job at rest needs no memory here.
        if self.entries.get(key).is_some_and(|entry| entry.place == Place::Idle) {
            self.entries.remove(key);
        }
    }

    /// When [`Self::pop`] will have something, if nothing happens; at once when it has something now.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if self.turns.is_empty() { self.timers.first().map(|(at, _)| *at) } else { Some(Moment::ZERO) }
    }

    /// Jobs that something happened to and that nobody works on yet.
    pub(crate) fn len(&self) -> usize {
        self.pending
    }

    /// Moves whoever's time has come into the line of its namespace.
    fn line_up(&mut self, now: Moment) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            self.put(&key, Place::Ready);
            let line = self.lines.entry(Arc::clone(&key.namespace)).or_default();
            if line.is_empty() {
                self.turns.push_back(Arc::clone(&key.namespace));
            }
            line.push_back(key);
        }
    }

    /// The one place where a job's place and its timer change together.
    fn put(&mut self, key: &Key, place: Place) {
        let entry = match self.entries.get_mut(key) {
            Some(entry) => entry,
            None => self.entries.entry(key.clone()).or_default(),
        };
        if let Place::Waiting { at, .. } = entry.place {
            self.timers.remove(&(at, key.clone()));
        }
        self.pending = self.pending + usize::from(place.is_pending()) - usize::from(entry.place.is_pending());
        entry.place = place;
        if let Place::Waiting { at, .. } = place {
            self.timers.insert((at, key.clone()));
        }
    }
}

impl Pace {
    fn retry(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first_retry.saturating_mul(1 << doublings).min(self.longest_retry)
    }
}

#[cfg(test)]
mod tests;
