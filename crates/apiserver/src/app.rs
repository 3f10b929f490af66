//! What the verbs and the controllers share: the store, what is served, the time.

use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

use crate::auth::rbac::Rbac;
use crate::auth::{Accounts, Authenticator, Guard, Identity};
use crate::crd;
use crate::failure::Failure;
use crate::fields::Writer;
use crate::logs::PodLogs;
use crate::object::time;
use crate::registry::{Catalog, Registry, Served};
use crate::rules::delete::{self, DeleteOptions};
use crate::rules::track::Track;
use crate::server::{Clock, Ready};
use crate::store::{Key, Outcome, Store, Stored, Written};
use crate::streams::PodStreams;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) authenticator: Arc<Authenticator>,
    /// Service accounts; without them there are no tokens.
    pub(crate) accounts: Option<Arc<Accounts>>,
    /// Whoever asks without a socket in between.
    pub(crate) internal: Arc<Identity>,
    pub(crate) clock: Clock,
    /// Closes when the server is shut down.
    pub(crate) stop: watch::Receiver<()>,
    pub(crate) namespaces: Arc<str>,
    /// How long events are kept.
    pub(crate) event_ttl: Duration,
    pub(crate) ready: Ready,
    pub(crate) pod_logs: Option<Arc<dyn PodLogs>>,
    pub(crate) pod_streams: Option<Arc<dyn PodStreams>>,
    /// Places for streaming connections.
    pub(crate) stream_places: Arc<Semaphore>,
}

impl App {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Who knows whose credentials are whose.
    pub(crate) fn guard(&self) -> Guard {
        Guard {
            authenticator: Arc::clone(&self.authenticator),
            accounts: self.accounts.clone(),
            store: self.store.clone(),
            clock: Arc::clone(&self.clock),
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.registry.catalog()
    }

    pub(crate) fn namespace_key(&self, name: &str) -> Key {
        Key::new(&self.namespaces, "", name)
    }

    /// Every write goes through here, so that what it means for the registry is never missed.
    pub(crate) async fn transact(
        &self,
        key: &Key,
        alive: &[Key],
        decide: impl FnMut(Option<&Stored>) -> Result<Outcome, Failure>,
    ) -> Result<Written, Failure> {
        let written = self.store.transact(key, alive, decide).await?;
        match &written {
            Written::Put(stored) => self.notice(stored, false),
            Written::Removed(stored) => self.notice(stored, true),
            Written::Kept(_) => {}
        }
        Ok(written)
    }

    /// Decides a write without making it.
    pub(crate) fn rehearse(
        &self,
        key: &Key,
        mut decide: impl FnMut(Option<&Stored>) -> Result<Outcome, Failure>,
    ) -> Result<Written, Failure> {
        let current = self.store.latest(key);
        let stored = |object: Value| Stored::rehearsed(key, &object).map(Arc::new).map_err(Failure::internal);
        Ok(match decide(current.as_deref())? {
            Outcome::Keep => Written::Kept(current),
            Outcome::Put(object) => Written::Put(stored(object)?),
            Outcome::Remove(object) => Written::Removed(stored(object)?),
        })
    }

    /// Takes a definition that was written into the catalogue, or out of it. Called by whoever learns of it: the
    /// writer, so that it is served when the answer arrives, and the controllers, which may be quicker.
    pub(crate) fn notice(&self, stored: &Stored, removed: bool) {
        if !crd::is_table(stored.key.table()) {
            return;
        }
        let Ok(object) = stored.value() else { return };
        let versions = if removed { Vec::new() } else { crd::served(&object) };
        let news = self.registry.define(stored.key.name(), stored.revision, versions);
        if news && removed {
            self.store.close_watches(&crd::table(&object));
        }
    }

    /// Deletes one object as a DELETE request does.
    pub(crate) async fn delete(
        &self,
        served: &Served,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Written, Failure> {
        let decide = |current: Option<&Stored>| self.decide_delete(served, key, options, current);
        if options.dry_run.as_ref().is_some_and(|d| !d.is_empty()) {
            return self.rehearse(key, decide);
        }
        self.transact(key, &[], decide).await
    }

    fn decide_delete(
        &self,
        served: &Served,
        key: &Key,
        options: &DeleteOptions,
        current: Option<&Stored>,
    ) -> Result<Outcome, Failure> {
        let current = current.ok_or_else(|| Failure::not_found(served, key.name()))?;
        let object = current.value().map_err(Failure::internal)?;
        delete::delete(served, object, options, self.now())
    }

    /// Edits a stored object in place, for the controllers. False from `edit` leaves it as it is.
    pub(crate) async fn edit(
        &self,
        served: &Served,
        key: &Key,
        uid: &str,
        mut edit: impl FnMut(&mut Value) -> bool,
    ) -> Result<(), Failure> {
        let (catalog, now) = (self.catalog(), time(self.now()));
        let decide = |current: Option<&Stored>| {
            let Some(current) = current.filter(|c| &*c.uid == uid) else {
                return Ok(Outcome::Keep);
            };
            let old = current.value().map_err(Failure::internal)?;
            let mut new = old.clone();
            if !edit(&mut new) {
                return Ok(Outcome::Keep);
            }
            let writer = Writer { manager: "kube-controller-manager", subresource: "", now: &now };
            Track { served, catalog: &catalog, writer }.updated(&old, &mut new);
            Ok(crate::rules::update::settle(served, &old, new))
        };
        self.transact(key, &[], decide).await.map(|_| ())
    }
}
