//! How much of the past is kept, for watchers that fall behind and for lists that are continued.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::stored::Event;

/// Limits of the past. An event that is beyond any of them is forgotten, the oldest of all resources first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// How much memory events may take, all resources together.
    pub bytes: usize,
    /// How long an event is kept.
    pub age: Duration,
    /// How many events of each resource are kept, for tests that want few.
    pub events: usize,
}

impl Default for History {
    /// An hour of a busy machine is a few megabytes; ten minutes are twice what a real API server keeps.
    fn default() -> Self {
        Self { bytes: 64 << 20, age: Duration::from_secs(600), events: usize::MAX }
    }
}

impl From<usize> for History {
    fn from(events: usize) -> Self {
        Self { events: events.max(1), ..Self::default() }
    }
}

/// What an event takes beside the text of its objects.
const OVERHEAD: usize = 512;

/// The events of all tables, in order, and what they take.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) limits: History,
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    table: Arc<str>,
    revision: u64,
    bytes: usize,
}

impl Past {
    pub(super) fn new(limits: History) -> Self {
        Self { limits, entries: VecDeque::new(), bytes: 0 }
    }

    /// Notes an event that its table keeps.
    pub(super) fn add(&mut self, event: &Event, now: Instant) {
        let object = &event.object;
        // The version before is mostly that of an earlier event. That one may be forgotten first, so it counts for both.
        let previous = event.previous.as_ref().map_or(0, |previous| previous.bytes.len());
        let bytes = event.line.len() + previous + OVERHEAD;
        let table = Arc::clone(object.key.table());
        self.entries.push_back(Entry { at: now, table, revision: object.revision, bytes });
        self.bytes += bytes;
    }

    /// The oldest event if it has to go: its table and its revision. The newest stays, however large it is.
    pub(super) fn next_to_go(&mut self, now: Instant) -> Option<(Arc<str>, u64)> {
        let oldest = self.entries.front().filter(|_| self.entries.len() > 1)?;
        if self.bytes <= self.limits.bytes && now.duration_since(oldest.at) <= self.limits.age {
            return None;
        }
        let gone = self.entries.pop_front()?;
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        Some((gone.table, gone.revision))
    }
}
