//! What all tasks of an operator share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use trainyard_core::{Catalog, ExtraView, Kind, PodView, ServiceView};

use crate::api::Api;
use crate::children::Children;
use crate::events::Events;
use crate::health::{Counters, Health};
use crate::jobs::Jobs;
use crate::memory::Memory;
use crate::options::Options;
use crate::ports::PortBook;
use crate::priorities::Classes;
use crate::queue::{Key, Moment, Pace, Queue};

/// What all tasks of an operator share. No lock is held while waiting, and no two at once.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) api: Arc<Api>,
    pub(crate) catalog: Table,
    /// The kinds of the catalogue that this operator works on.
    pub(crate) kinds: Vec<&'static Kind>,
    pub(crate) options: Options,
    pub(crate) events: Events,
    pub(crate) health: Health,
    /// Rung when the queue has changed.
    pub(crate) bell: Notify,
    start: Instant,
    queue: Mutex<Queue>,
    jobs: Mutex<Jobs>,
    pods: Mutex<Children<PodView>>,
    services: Mutex<Children<ServiceView>>,
    extras: Extras,
    memory: Mutex<Memory>,
    ports: Mutex<PortBook>,
    classes: Mutex<Classes>,
}

/// Children of one resource that is neither pods nor services.
pub(crate) type Cache = Mutex<Children<ExtraView>>;

/// One cache for each: how far a watch has come is known of one resource only.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) config_maps: Cache,
    pub(crate) accounts: Cache,
    pub(crate) roles: Cache,
    pub(crate) bindings: Cache,
    pub(crate) autoscalers: Cache,
    pub(crate) volcano_gangs: Cache,
    pub(crate) plugins_gangs: Cache,
}

/// `Catalog` has no `Debug`.
pub(crate) struct Table(pub(crate) Catalog);

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.kinds.iter().map(|kind| kind.name)).finish()
    }
}

impl Shell {
    pub(crate) fn new(
        api: Arc<Api>,
        catalog: Catalog,
        kinds: Vec<&'static Kind>,
        options: Options,
        events: Events,
        health: Health,
    ) -> Self {
        let effort = options.effort;
        let pace = Pace {
            debounce: effort.debounce,
            longest_wait: effort.longest_wait,
            first_retry: effort.first_retry,
            longest_retry: effort.longest_retry,
        };
        Self {
            api,
            catalog: Table(catalog),
            kinds,
            events,
            health,
            bell: Notify::new(),
            start: Instant::now(),
            queue: Mutex::new(Queue::new(pace)),
            jobs: Mutex::default(),
            pods: Mutex::default(),
            services: Mutex::default(),
            extras: Extras::default(),
            memory: Mutex::default(),
            ports: Mutex::new(PortBook::new(options.ports)),
            classes: Mutex::default(),
            options,
        }
    }

    /// Now, as it is written down.
    pub(crate) fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Now, as the queue counts.
    pub(crate) fn moment(&self) -> Moment {
        self.start.elapsed()
    }

    /// A moment as tokio counts.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.start.checked_add(moment).unwrap_or(self.start)
    }

    /// Something happened to these jobs.
    pub(crate) fn touch<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        let now = self.moment();
        let mut queue = self.queue();
        let mut any = false;
        for key in keys {
            queue.add(key, now);
            any = true;
        }
        drop(queue);
        if any {
            self.bell.notify_one();
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.health.counters()
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    pub(crate) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }

    pub(crate) fn pods(&self) -> MutexGuard<'_, Children<PodView>> {
        lock(&self.pods)
    }

    pub(crate) fn services(&self) -> MutexGuard<'_, Children<ServiceView>> {
        lock(&self.services)
    }

    pub(crate) fn extras(&self, choose: fn(&Extras) -> &Cache) -> MutexGuard<'_, Children<ExtraView>> {
        lock(choose(&self.extras))
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, PortBook> {
        lock(&self.ports)
    }

    pub(crate) fn classes(&self) -> MutexGuard<'_, Classes> {
        lock(&self.classes)
    }
}

/// A panic elsewhere leaves values whole: every change is made in one piece.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
