//! The objects of one resource and the last stretch of their history.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::watch;

use super::stored::{Event, EventKind, Stored};

/// The revision asked for is older than the history kept, which begins after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone(pub u64);

/// One page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, in key order.
    pub items: Vec<Arc<Stored>>,
    /// Whether the range goes on after the last item.
    pub more: bool,
    /// The revision this page is the state of.
    pub revision: u64,
}

/// A range of keys: everything under `prefix`, after `after` if given, at most `limit`.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// `namespace/`, or empty for all namespaces.
    pub prefix: &'a str,
    /// Where the previous page ended.
    pub after: Option<&'a str>,
    /// How many at most.
    pub limit: usize,
}

impl Range<'_> {
    fn start(&self) -> Bound<&str> {
        self.after.map_or(Bound::Included(self.prefix), Bound::Excluded)
    }
}

#[derive(Debug)]
pub(super) struct Table {
    objects: BTreeMap<Box<str>, Arc<Stored>>,
    ring: VecDeque<Arc<Event>>,
    /// Every event after this revision is in the ring.
    floor: u64,
    /// Wakes watchers; carries the revision of the last event.
    wake: watch::Sender<u64>,
    /// The last `apiVersion` written, shared by the objects that have it.
    api_version: Arc<str>,
}

impl Table {
    /// A table whose history begins after `floor`.
    pub(super) fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            floor,
            wake: watch::Sender::new(floor),
            api_version: "".into(),
        }
    }

    pub(super) fn load(&mut self, mut stored: Stored) {
        stored.api_version = self.intern(&stored.api_version);
        self.objects.insert(stored.key.path().into(), Arc::new(stored));
    }

    pub(super) fn intern(&mut self, api_version: &str) -> Arc<str> {
        if &*self.api_version != api_version {
            self.api_version = api_version.into();
        }
        Arc::clone(&self.api_version)
    }

    pub(super) fn get(&self, path: &str) -> Option<&Arc<Stored>> {
        self.objects.get(path)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    pub(super) fn count(&self, range: Range<'_>) -> usize {
        if range.prefix.is_empty() && range.after.is_none() { self.len() } else { self.range(range).count() }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    pub(super) fn close_watches(&mut self) {
        let last = *self.wake.borrow();
        self.wake = watch::Sender::new(last);
    }

    /// Makes a durable event visible.
    pub(super) fn apply(&mut self, event: Arc<Event>, events: usize) {
        let object = &event.object;
        match event.kind {
            EventKind::Added | EventKind::Modified => {
                self.objects.insert(object.key.path().into(), Arc::clone(object));
            }
            EventKind::Deleted => {
                self.objects.remove(object.key.path());
            }
        }
        let revision = object.revision;
        self.ring.push_back(event);
        let beyond = self.ring.len().checked_sub(events.saturating_add(1));
        let last = beyond.and_then(|last| self.ring.get(last)).map(|event| event.object.revision);
        if let Some(last) = last {
            self.forget(last);
        }
        self.wake.send_replace(revision);
    }

    /// Forgets the events up to a revision.
    pub(super) fn forget(&mut self, revision: u64) {
        while let Some(old) = self.ring.pop_front_if(|event| event.object.revision <= revision) {
            self.floor = old.object.revision;
        }
        // After a burst.
        if self.ring.capacity() > 4 * self.ring.len().max(64) {
            self.ring.shrink_to(2 * self.ring.len());
        }
    }

    /// The events after a revision, at most `max`.
    pub(super) fn since(&self, after: u64, max: usize) -> Result<Vec<Arc<Event>>, Gone> {
        if after < self.floor {
            return Err(Gone(self.floor));
        }
        let start = self.ring.partition_point(|e| e.object.revision <= after);
        Ok(self.ring.range(start..).take(max).cloned().collect())
    }

    fn range<'a>(&'a self, range: Range<'a>) -> impl Iterator<Item = (&'a str, &'a Arc<Stored>)> {
        self.objects
            .range::<str, _>((range.start(), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(range.prefix))
            .map(|(path, stored)| (&**path, stored))
    }

    /// A page of the current state.
    pub(super) fn page(&self, range: Range<'_>) -> (Vec<Arc<Stored>>, bool) {
        let mut rest = self.range(range).map(|(_, stored)| stored);
        let items = rest.by_ref().take(range.limit).cloned().collect();
        (items, rest.next().is_some())
    }

    /// A page of the state at an older revision: the current one with the history since then undone.
    pub(super) fn page_at(&self, range: Range<'_>, revision: u64) -> Result<(Vec<Arc<Stored>>, bool), Gone> {
        let later = self.since(revision, usize::MAX)?;
        let mut undone: BTreeMap<&str, Option<&Arc<Stored>>> = BTreeMap::new();
        for event in later.iter().rev() {
            undone.insert(event.object.key.path(), event.previous.as_ref());
        }
        let old = undone
            .range::<str, _>((range.start(), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(range.prefix))
            .filter_map(|(path, stored)| stored.map(|s| (*path, s)));
        let current = self.range(range).filter(|(path, _)| !undone.contains_key(path));
        let mut rest = Merge { left: current.peekable(), right: old.peekable() };
        let items = rest.by_ref().take(range.limit).cloned().collect();
        Ok((items, rest.next().is_some()))
    }
}

/// Two key-ordered sequences without common keys as one.
struct Merge<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<'a, L, R> Iterator for Merge<L, R>
where
    L: Iterator<Item = (&'a str, &'a Arc<Stored>)>,
    R: Iterator<Item = (&'a str, &'a Arc<Stored>)>,
{
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        let from_left = match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) => left < right,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let next = if from_left { self.left.next() } else { self.right.next() };
        next.map(|(_, stored)| stored)
    }
}
