//! What makes workloads and services more than records: deployments, replica sets, jobs, endpoints.
//!
//! Each controller looks at one object and what belongs to it, decides, and writes through the API as any client
//! does. None remembers anything that the next process could not find again. Looks are caused by the store's events,
//! by time, or by a look that failed.

mod client;
mod deployment;
mod endpoints;
mod index;
mod job;
mod labels;
mod pods;
mod progress;
mod record;
mod replicaset;
mod rollout;

use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::yield_now;
use tokio::time::Instant;

use self::client::{Client, Refused};
use self::index::{Index, Item, Kind};
use crate::app::App;
use crate::store::Event;

/// Objects looked at together: their writes share commits.
const PARALLEL: usize = 32;
/// Objects or events taken in before others get their turn, and the controllers may be stopped.
const BURST: usize = 1024;
/// When a look that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What a look found out: when to look again though nothing happens, if ever.
type Look = Result<Option<Duration>, Refused>;

/// Runs as long as it is polled. However much there is to do, it waits often: whoever stops polling it has stopped it.
pub(crate) async fn run(app: App) {
    Controllers::open(app).await.run().await;
}

struct Controllers {
    app: App,
    client: Client,
    index: Index,
    events: UnboundedReceiver<Arc<Event>>,
    /// Objects to look at, each once however often it was named.
    queue: BTreeSet<Item>,
    /// Objects to look at when their time has come.
    later: BTreeMap<Instant, BTreeSet<Item>>,
}

impl Controllers {
    async fn open(app: App) -> Self {
        // Subscribed first: what is written meanwhile is seen twice rather than never.
        let events = app.store.feed();
        let mut controllers = Self {
            client: Client::new(app.clone()),
            events,
            index: Index::default(),
            queue: BTreeSet::new(),
            later: BTreeMap::new(),
            app,
        };
        for some in controllers.app.store.everything().chunks(BURST) {
            for stored in some {
                controllers.queue.extend(controllers.index.seen(stored));
            }
            yield_now().await;
        }
        controllers
    }

    async fn run(mut self) {
        loop {
            self.take_in().await;
            while !self.queue.is_empty() {
                self.work().await;
                // All of it: a look must see what the looks before it wrote.
                self.take_in().await;
            }
            let next = self.later.keys().next().copied();
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.take(&event),
                    None => return,
                },
                () = until(next) => self.wake(),
            }
        }
    }

    /// Takes in what has happened until now, and lets others have their turn.
    async fn take_in(&mut self) {
        let mut left = self.events.len();
        loop {
            for _ in 0..left.min(BURST) {
                if let Ok(event) = self.events.try_recv() {
                    self.take(&event);
                }
            }
            yield_now().await;
            left = left.saturating_sub(BURST);
            if left == 0 {
                return;
            }
        }
    }

    fn take(&mut self, event: &Event) {
        let items = self.index.take(event);
        self.queue.extend(items);
    }

    fn wake(&mut self) {
        let later = self.later.split_off(&(Instant::now() + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut self.later, later);
        self.queue.extend(due.into_values().flatten());
    }

    async fn work(&mut self) {
        let batch: Vec<Item> = std::iter::from_fn(|| self.queue.pop_first()).take(PARALLEL).collect();
        let looks = join_all(batch.iter().map(|item| self.look(item))).await;
        for (item, look) in batch.into_iter().zip(looks) {
            let again = match look {
                Ok(again) => again,
                Err(refused) => {
                    // Somebody else was quicker: the event of that is on its way, or already here.
                    if refused.code != 409 {
                        tracing::debug!(?item, %refused, "a controller's look failed, will be tried again");
                    }
                    Some(RETRY)
                }
            };
            if let Some(delay) = again {
                self.later.entry(Instant::now() + delay).or_default().insert(item);
            }
        }
    }

    async fn look(&self, item: &Item) -> Look {
        let Some(stored) = self.app.store.get(&item.key) else {
            return match item.kind {
                Kind::Service => endpoints::gone(self, &item.key).await,
                Kind::Deployment | Kind::ReplicaSet | Kind::Job | Kind::Pod => Ok(None),
            };
        };
        match item.kind {
            Kind::ReplicaSet => replicaset::look(self, &stored).await,
            Kind::Deployment => deployment::look(self, &stored).await,
            Kind::Job => job::look(self, &stored).await,
            Kind::Pod => job::orphan(self, &stored).await,
            Kind::Service => endpoints::look(self, &stored).await,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
