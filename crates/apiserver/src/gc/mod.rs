//! The server's own controllers, driven by the store's events: owner garbage collection, the emptying of namespaces,
//! and of definitions that are deleted.

mod expiry;
mod graph;
mod owners;
mod remaining;
mod reports;
mod sweep;

use futures::future::join_all;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

use self::expiry::Expiry;
use self::graph::Graph;
use self::reports::Reports;
use crate::app::App;
use crate::auth::Identity;
use crate::crd;
use crate::failure::Failure;
use crate::rules::delete::{DeleteOptions, Preconditions};
use crate::store::{Event, EventKind, Key, Stored};

/// Events taken in before work is done: a burst of deletions becomes one look at each object.
const BURST: usize = 1024;
/// Objects looked at together.
pub(crate) const PARALLEL: usize = 64;
/// When a look that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Who deletes what nobody needs any more, as webhooks are told.
static COLLECTOR: LazyLock<Identity> =
    LazyLock::new(|| Identity::account("kube-system", "generic-garbage-collector", ""));

/// Runs until the server is stopped.
pub(crate) async fn run(app: App) {
    let mut stop = app.stop.clone();
    tokio::select! {
        biased;
        _ = stop.changed() => {}
        () = Controller::new(app).run() => {}
    }
}

struct Controller {
    app: App,
    graph: Graph,
    events: UnboundedReceiver<Arc<Event>>,
    /// Objects to look at, each once however often it was named.
    queue: BTreeSet<Key>,
    /// Objects whose owner is of a kind that is not served; looked at again when one is added.
    unresolved: BTreeSet<Key>,
    /// Objects whose look failed because a write did.
    failed: BTreeSet<Key>,
    /// Events of the Event API, which nobody deletes.
    expiry: Expiry,
    /// Namespaces to tell what keeps them, later and at the next look.
    reports: Reports,
    due: BTreeSet<Key>,
}

impl Controller {
    fn new(app: App) -> Self {
        // Subscribed first: what is written meanwhile is seen twice rather than never.
        let events = app.store.feed();
        let mut controller = Self {
            events,
            graph: Graph::default(),
            queue: BTreeSet::new(),
            unresolved: BTreeSet::new(),
            failed: BTreeSet::new(),
            expiry: Expiry::new(app.event_ttl),
            reports: Reports::default(),
            due: BTreeSet::new(),
            app,
        };
        for stored in controller.app.store.everything() {
            controller.seen(&stored);
        }
        controller
    }

    async fn run(mut self) {
        loop {
            while !self.queue.is_empty() {
                self.work().await;
                self.take_in();
            }
            let retry = !self.failed.is_empty();
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.take(&event),
                    None => return,
                },
                key = self.expiry.next() => self.expire(&key).await,
                mut keys = self.reports.next() => {
                    self.queue.extend(keys.iter().cloned());
                    self.due.append(&mut keys);
                }
                () = tokio::time::sleep(RETRY), if retry => self.queue.append(&mut self.failed),
            }
            self.take_in();
        }
    }

    /// Looks at some of the queue, at once: their writes then share commits.
    async fn work(&mut self) {
        let batch: Vec<Key> = std::iter::from_fn(|| self.queue.pop_first()).take(PARALLEL).collect();
        let looks = join_all(batch.iter().map(|key| self.look(key))).await;
        for (key, look) in batch.into_iter().zip(looks) {
            self.due.remove(&key);
            match look {
                Ok(true) => {}
                Ok(false) => {
                    self.unresolved.insert(key);
                }
                Err(failure) => {
                    tracing::warn!(%key, status = %failure.status(), "garbage collection failed, will be tried again");
                    self.failed.insert(key);
                }
            }
        }
    }

    async fn expire(&mut self, expired: &Arc<Stored>) {
        let catalog = self.app.catalog();
        let Some(served) = catalog.by_table(expired.key.table()) else {
            return;
        };
        let version = Preconditions { uid: None, resource_version: Some(expired.revision.to_string()) };
        let options = DeleteOptions { preconditions: Some(version), ..DeleteOptions::default() };
        if let Err(failure) = owners::ignore_races(self.app.delete(served, &expired.key, &options).await) {
            tracing::warn!(key = %expired.key, status = %failure.status(), "an event could not be expired");
        }
    }

    /// Takes in what already happened.
    fn take_in(&mut self) {
        for _ in 0..BURST {
            match self.events.try_recv() {
                Ok(event) => self.take(&event),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, event: &Event) {
        let object = &event.object;
        if let Some(previous) = &event.previous {
            self.graph.remove(previous);
            self.let_go(event, previous);
        }
        match event.kind {
            EventKind::Added | EventKind::Modified => self.seen(object),
            EventKind::Deleted => self.gone(object),
        }
        self.note_for_namespace(event);
        if crd::is_table(object.key.table()) {
            self.app.notice(object, event.kind == EventKind::Deleted);
            self.queue.append(&mut self.unresolved);
        }
    }

    /// Looks again at the owners that waited for an object: it is gone, or no longer a dependent that blocks them.
    fn let_go(&mut self, event: &Event, previous: &Stored) {
        let waiting: Vec<Key> =
            previous.owners.iter().filter_map(|owner| self.graph.waiting(owner)).collect();
        if waiting.is_empty() {
            return;
        }
        if event.kind == EventKind::Deleted || !owners::same_references(previous, &event.object) {
            self.queue.extend(waiting);
        }
    }

    fn seen(&mut self, object: &Arc<Stored>) {
        self.graph.add(object);
        self.expiry.add(object);
        if !object.owners.is_empty() || object.deleting {
            self.queue.insert(object.key.clone());
        }
    }

    /// What an object's end may let go: its dependents, and the namespace or definition it was the last of.
    fn gone(&mut self, object: &Stored) {
        self.queue.extend(self.graph.dependents(&object.uid));
        let namespace = object.key.namespace();
        if !namespace.is_empty() {
            self.queue_if_deleting(self.app.namespace_key(namespace));
        }
        if let Some(key) = crd::key(object.key.table()) {
            self.queue_if_deleting(key);
        }
    }

    /// What is left in a namespace that ends, or what keeps it, may be another.
    fn note_for_namespace(&mut self, event: &Event) {
        let object = &event.object;
        let namespace = object.key.namespace();
        if namespace.is_empty() || !(object.deleting || event.kind == EventKind::Deleted) {
            return;
        }
        let key = self.app.namespace_key(namespace);
        if self.is_deleting(&key) {
            self.reports.add(key);
        }
    }

    fn is_deleting(&self, key: &Key) -> bool {
        self.app.store.get(key).is_some_and(|stored| stored.deleting)
    }

    fn queue_if_deleting(&mut self, key: Key) {
        if self.is_deleting(&key) {
            self.queue.insert(key);
        }
    }

    /// Does what there is to do about one object. False when that depends on a kind that is not served (yet).
    async fn look(&self, key: &Key) -> Result<bool, Failure> {
        let Some(stored) = self.app.store.get(key) else {
            return Ok(true);
        };
        let catalog = self.app.catalog();
        let Some(served) = catalog.by_table(key.table()) else {
            return Ok(true);
        };
        if stored.deleting {
            owners::finish(&self.app, served, &stored, &self.graph).await?;
            sweep::finish(&self.app, served, &stored, self.due.contains(key)).await?;
        }
        if stored.owners.is_empty() {
            return Ok(true);
        }
        owners::collect(&self.app, served, &stored, &self.graph).await
    }
}
