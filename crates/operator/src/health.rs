//! How an operator is doing, for probes, metrics and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::counts::{Counts, Fate, JobCounts};
use crate::queue::Key;

/// A view of a running operator. Cheap to clone; good before, while and after it runs.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    counters: Counters,
    sources: Mutex<BTreeMap<String, Source>>,
    held: Mutex<BTreeSet<&'static str>>,
    jobs: Counts,
    changed: Notify,
    stuck: Mutex<Vec<String>>,
    silence: Duration,
}

#[derive(Debug)]
struct Source {
    state: SourceState,
    /// The server said something, whatever it was.
    heard: Instant,
    /// The server said what was asked for.
    good: Instant,
}

/// How far a watch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// The first list is not complete.
    Listing,
    /// It watches.
    Watching,
    /// The server does not know the kind, or does not show it and the operator does without.
    Absent,
}

/// What an operator counts. All but the last four only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Looks at jobs.
    pub reconciles: u64,
    /// Looks at jobs that ended in an error and are repeated.
    pub reconcile_errors: u64,
    /// Plans that were dropped because the job had changed meanwhile.
    pub stale_plans: u64,
    /// Requests that change something, events not included.
    pub writes: u64,
    /// Writes that the server refused for good.
    pub refused_writes: u64,
    /// Watches that ended before their time or had to be broken off.
    pub watch_restarts: u64,
    /// Complete lists.
    pub lists: u64,
    /// Objects that could not be read.
    pub undecodable: u64,
    /// Lines of a watch that were no events.
    pub garbled: u64,
    /// Pods created.
    pub pods_created: u64,
    /// Pods of jobs that are gone, whoever deleted them.
    pub pods_deleted: u64,
    /// Pods that failed.
    pub pods_failed: u64,
    /// Services created.
    pub services_created: u64,
    /// Services that could not be created; one that is tried again counts again.
    pub services_not_created: u64,
    /// PodGroups created.
    pub groups_created: u64,
    /// PodGroups deleted.
    pub groups_deleted: u64,
    /// Events posted.
    pub events_posted: u64,
    /// Events dropped: too many, or refused.
    pub events_dropped: u64,
    /// Jobs that wait for a look.
    pub queued: u64,
    /// Jobs that are looked at now.
    pub running: u64,
    /// Jobs known.
    pub jobs: u64,
    /// Requests that may be under way at once.
    pub request_limit: u64,
}

macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        /// The counters behind [`Stats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            fn stats(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters!(
    reconciles,
    reconcile_errors,
    stale_plans,
    writes,
    refused_writes,
    watch_restarts,
    lists,
    undecodable,
    garbled,
    pods_created,
    pods_deleted,
    pods_failed,
    services_created,
    services_not_created,
    groups_created,
    groups_deleted,
    events_posted,
    events_dropped,
    queued,
    running,
    jobs,
    request_limit,
);

/// A number that many tasks change.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: usize) {
        self.0.store(u64::try_from(value).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Health {
    /// A watch that was not heard of for `silence` is taken for dead.
    pub(crate) fn new(silence: Duration) -> Self {
        let (counters, sources, held) = (Counters::default(), Mutex::default(), Mutex::default());
        let (jobs, changed) = (Counts::default(), Notify::new());
        let stuck = Mutex::default();
        Self(Arc::new(Inner { counters, sources, held, jobs, changed, stuck, silence }))
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        self.0.counters.stats()
    }

    /// What became of jobs, by namespace and framework.
    pub fn jobs(&self) -> BTreeMap<(Arc<str>, &'static str), JobCounts> {
        self.0.jobs.all()
    }

    /// Something became of a job.
    pub(crate) fn count(&self, key: &Key, fate: Fate) {
        self.0.jobs.add(&key.namespace, key.kind(), fate);
    }

    /// True when every watch has shown the whole world once and is up to date, or is known to have nothing to show, and
    /// nobody holds.
    pub fn ready(&self) -> bool {
        if self.is_held() {
            return false;
        }
        let sources = self.lock();
        let good =
            |source: &Source| source.state != SourceState::Listing && source.good.elapsed() <= self.0.silence;
        !sources.is_empty() && sources.values().all(good)
    }

    /// Waits for [`Self::ready`].
    pub async fn until_ready(&self) {
        self.until(Self::ready).await;
    }

    /// True when something beside the operator keeps it from being ready.
    pub fn is_held(&self) -> bool {
        !self.held().is_empty()
    }

    /// Something beside the operator is part of its readiness, until [`Self::release`]. Jobs are worked on meanwhile.
    pub fn hold(&self, what: &'static str) {
        self.held().insert(what);
    }

    /// What was held for is there.
    pub fn release(&self, what: &'static str) {
        if self.held().remove(what) {
            self.0.changed.notify_waiters();
        }
    }

    /// The watches that stay silent although the API server answers others. None: the operator lives.
    pub fn stuck(&self) -> Vec<String> {
        self.0.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_stuck(&self, watches: Vec<String>) {
        *self.0.stuck.lock().unwrap_or_else(PoisonError::into_inner) = watches;
    }

    /// How long a watch may be silent.
    pub(crate) fn silence(&self) -> Duration {
        self.0.silence
    }

    /// The watches that were silent for too long: they are dead, or the server is.
    pub fn silent(&self) -> Vec<String> {
        let sources = self.lock();
        let silent = sources.iter().filter(|(_, source)| source.heard.elapsed() > self.0.silence);
        silent.map(|(name, _)| name.clone()).collect()
    }

    /// Every watch and how far it has come.
    pub fn watches(&self) -> BTreeMap<String, SourceState> {
        self.lock().iter().map(|(name, source)| (name.clone(), source.state)).collect()
    }

    /// True when no watch has its first list before it.
    pub(crate) fn all_listed(&self) -> bool {
        self.lock().values().all(|source| source.state != SourceState::Listing)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Notes a watch, or how far it has come; and that it was heard of now.
    pub(crate) fn note(&self, name: &str, state: SourceState) {
        let now = Instant::now();
        self.lock().insert(name.to_owned(), Source { state, heard: now, good: now });
        self.0.changed.notify_waiters();
    }

    /// A watch goes on.
    pub(crate) fn progress(&self, name: &str) {
        if let Some(source) = self.lock().get_mut(name) {
            let (now, late) = (Instant::now(), source.good.elapsed() > self.0.silence);
            (source.heard, source.good) = (now, now);
            if late {
                self.0.changed.notify_waiters();
            }
        }
    }

    /// The server said something to a watch.
    pub(crate) fn hear(&self, name: &str) {
        if let Some(source) = self.lock().get_mut(name) {
            source.heard = Instant::now();
        }
    }

    pub(crate) async fn until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if condition(self) {
                return;
            }
            changed.await;
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Source>> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ready_when_all_are_and_silent_when_not_heard_of() {
        let health = Health::new(Duration::from_secs(300));
        assert!(!health.ready(), "an operator that has not started is not ready");
        health.note("pods", SourceState::Listing);
        health.note("tfjobs", SourceState::Absent);
        assert!(!health.ready());
        health.hold("webhooks");
        health.note("pods", SourceState::Watching);
        assert!(!health.ready());
        health.release("webhooks");
        health.until_ready().await;
        tokio::time::sleep(Duration::from_secs(301)).await;
        health.hear("pods");
        assert_eq!(health.silent(), ["tfjobs"]);
    }
}
