//! What the verbs and the controllers share: the store, what is served, the time.

use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

use crate::admission::{Attributes, Place, Relevant, Webhooks};
use crate::auth::rbac::Rbac;
use crate::auth::{Accounts, Authenticator, Guard, Identity};
use crate::builtin::addresses::{self, Addresses, Reservation};
use crate::builtin::families;
use crate::crd;
use crate::failure::Failure;
use crate::fields::Writer;
use crate::http::{Aside, Shares};
use crate::logs::PodLogs;
use crate::object::{meta, time};
use crate::registry::{Catalog, Registry, Served};
use crate::rules::delete::{self, DeleteOptions};
use crate::rules::track::Track;
use crate::server::{Clock, Ready};
use crate::store::{Key, Outcome, Store, Stored, Written};
use crate::streams::PodStreams;

/// How often a write that webhooks were asked about is tried on an object that others change meanwhile.
pub(crate) const ATTEMPTS: usize = 8;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) webhooks: Arc<Webhooks>,
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
    /// Places for streaming connections, and who has how many of them.
    pub(crate) stream_places: Arc<Semaphore>,
    pub(crate) stream_shares: Shares,
    pub(crate) addresses: Addresses,
    /// Where work is done that takes long.
    pub(crate) aside: Aside,
    /// What clients have not read yet.
    pub(crate) unread: Shares,
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
            Outcome::Drafted(_) => {
                return Err(Failure::internal("what is written already cannot be rehearsed"));
            }
        })
    }

    /// Takes a definition that was written into the catalogue, or out of it, and what a service has into the books. Called by whoever learns of it: the
    /// writer, so that it is served when the answer arrives, and the controllers, which may be quicker.
    pub(crate) fn notice(&self, stored: &Stored, removed: bool) {
        if &**stored.key.table() == addresses::TABLE {
            self.addresses.notice(stored, removed);
        }
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

    /// Deletes one object as a DELETE request of somebody does: webhooks are asked. Their warnings come with it.
    pub(crate) async fn delete_as(
        &self,
        identity: &Identity,
        served: &Served,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<(Written, Vec<String>), Failure> {
        let place = Place { served, subresource: "", operation: "DELETE" };
        let relevant = self.webhooks.relevant(&self.catalog(), &place);
        if relevant.is_empty() {
            return Ok((self.delete(served, key, options).await?, Vec::new()));
        }
        Box::pin(self.delete_asking(identity, place, key, options, &relevant)).await
    }

    /// Asks, and deletes if the object is still the one that was asked about.
    async fn delete_asking(
        &self,
        identity: &Identity,
        place: Place<'_>,
        key: &Key,
        options: &DeleteOptions,
        relevant: &Relevant,
    ) -> Result<(Written, Vec<String>), Failure> {
        let served = place.served;
        let dry = options.is_dry();
        for _ in 0..ATTEMPTS {
            let seen = self.store.latest(key);
            let outcome = self.decide_delete(served, key, options, seen.as_deref())?;
            let old = seen.as_deref().map(Stored::value).transpose().map_err(Failure::internal)?;
            let is_namespace = served.is_core("namespaces");
            let mut attributes = Attributes {
                place,
                kind: None,
                namespace: if is_namespace { key.name() } else { key.namespace() }.to_owned(),
                name: key.name().to_owned(),
                identity,
                object: None,
                old: old.map(|mut old| {
                    served.present(&mut old);
                    old
                }),
                options: options.show(),
                dry,
            };
            let mut warnings = self.webhooks.mutate(self, relevant, &mut attributes).await?;
            warnings.extend(self.webhooks.validate(self, relevant, &attributes).await?);
            if let Some(written) = self.put_if(served, key, seen.as_deref(), &outcome, dry).await? {
                return Ok((written, warnings));
            }
        }
        Err(Failure::modified(served, key.name()))
    }

    /// Makes a write that was decided about a version, if that is still the newest; nothing if it is not.
    pub(crate) async fn put_if(
        &self,
        served: &Served,
        key: &Key,
        seen: Option<&Stored>,
        outcome: &Outcome,
        dry: bool,
    ) -> Result<Option<Written>, Failure> {
        let mut stale = false;
        let decide = |current: Option<&Stored>| {
            stale = current.map(|stored| stored.revision) != seen.map(|stored| stored.revision);
            if stale { Err(Failure::modified(served, key.name())) } else { Ok(outcome.clone()) }
        };
        let written = if dry { self.rehearse(key, decide) } else { self.transact(key, &[], decide).await };
        match written {
            Err(_) if stale => Ok(None),
            other => other.map(Some),
        }
    }

    /// Gives a service the addresses it needs; `old` is what it replaces.
    pub(crate) fn reserve(
        &self,
        served: &Served,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reservation, Failure> {
        let causes = families::check(service, old);
        let reserved = if causes.is_empty() { self.addresses.assign(service, old) } else { Err(causes) };
        reserved.map_err(|causes| Failure::invalid(served, meta(service, "name"), causes))
    }

    /// Deletes one object as a DELETE request does, without asking anybody.
    pub(crate) async fn delete(
        &self,
        served: &Served,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Written, Failure> {
        let decide = |current: Option<&Stored>| self.decide_delete(served, key, options, current);
        if options.is_dry() {
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
        edit: impl FnMut(&mut Value) -> bool,
    ) -> Result<(), Failure> {
        self.edit_at("", served, key, uid, edit).await
    }

    /// Edits the status of a stored object likewise.
    pub(crate) async fn edit_status(
        &self,
        served: &Served,
        key: &Key,
        uid: &str,
        edit: impl FnMut(&mut Value) -> bool,
    ) -> Result<(), Failure> {
        self.edit_at("status", served, key, uid, edit).await
    }

    async fn edit_at(
        &self,
        subresource: &'static str,
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
            let writer = Writer { manager: "kube-controller-manager", subresource, now: &now };
            Track { served, catalog: &catalog, writer, unsent: None }.updated(&old, &mut new);
            Ok(crate::rules::update::settle(served, &old, new))
        };
        self.transact(key, &[], decide).await.map(|_| ())
    }
}
