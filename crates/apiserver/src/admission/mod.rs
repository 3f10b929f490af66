//! Admission webhooks: others who are asked about a write before it is made, and may change or refuse it.
//!
//! A write nobody has asked to see costs two comparisons. One that somebody has is prepared, shown to those who may
//! change it, one after the other, then checked, and shown to those who may refuse it, all at once.

mod client;
mod config;
mod dispatch;
mod inside;
mod matching;
mod review;
mod service;
mod verifier;

use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

use self::client::Client;
use self::config::Hook;
pub use self::inside::{Judge, Validator};
pub(crate) use self::matching::Place;
pub(crate) use self::review::Attributes;
use crate::registry::Catalog;
use crate::store::{Range, Store};

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
const VALIDATING: &str = "admissionregistration.k8s.io/validatingwebhookconfigurations";

/// Every webhook there is.
#[derive(Debug)]
pub(crate) struct Webhooks {
    store: Store,
    mutating: Table,
    validating: Table,
    inside: Vec<Arc<Validator>>,
    client: Client,
}

/// The webhooks of one kind, as of a revision.
#[derive(Debug)]
struct Table {
    name: &'static str,
    wake: watch::Receiver<u64>,
    known: RwLock<(u64, Arc<[Arc<Hook>]>)>,
}

impl Table {
    fn new(store: &Store, name: &'static str) -> Self {
        let table = Self { name, wake: store.subscribe(&name.into()), known: RwLock::default() };
        table.reload(store);
        table
    }

    fn reload(&self, store: &Store) -> Arc<[Arc<Hook>]> {
        let page = store.page(self.name, Range { prefix: "", after: None, limit: usize::MAX });
        // In order of the configurations' names, then as they are written.
        let hooks: Arc<[Arc<Hook>]> = page.items.iter().flat_map(|stored| config::hooks(stored)).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.0 <= page.revision {
            *known = (page.revision, Arc::clone(&hooks));
        }
        hooks
    }

    /// What is configured now.
    fn hooks(&self, store: &Store) -> Arc<[Arc<Hook>]> {
        let last = *self.wake.borrow();
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if known.0 >= last {
                return Arc::clone(&known.1);
            }
        }
        self.reload(store)
    }
}

/// Those whose rules name a write, each with the version of the resource it wants to see.
#[derive(Debug, Default)]
pub(crate) struct Relevant {
    mutating: Vec<(Arc<Hook>, String)>,
    validating: Vec<(Arc<Hook>, String)>,
    inside: Vec<Arc<Validator>>,
}

impl Relevant {
    pub(crate) fn is_empty(&self) -> bool {
        !self.mutates() && !self.validates()
    }

    /// Whether somebody may change the object.
    pub(crate) fn mutates(&self) -> bool {
        !self.mutating.is_empty()
    }

    /// Whether somebody may refuse the object.
    pub(crate) fn validates(&self) -> bool {
        !self.validating.is_empty() || !self.inside.is_empty()
    }
}

impl Webhooks {
    pub(crate) fn new(store: Store, inside: Vec<Validator>) -> Self {
        let [mutating, validating] = [MUTATING, VALIDATING].map(|name| Table::new(&store, name));
        let inside = inside.into_iter().map(Arc::new).collect();
        Self { store, mutating, validating, inside, client: Client::default() }
    }

    /// Who could want to be asked about a write. Nobody is asked about the configurations themselves: one that refuses
    /// everything could never be removed.
    pub(crate) fn relevant(&self, catalog: &Catalog, place: &Place<'_>) -> Relevant {
        let (mutating, validating) = (self.mutating.hooks(&self.store), self.validating.hooks(&self.store));
        let inside = self.inside.iter().filter(|validator| validator.wants(place)).cloned().collect();
        if mutating.is_empty() && validating.is_empty() || place.served.group == GROUP {
            return Relevant { inside, ..Relevant::default() };
        }
        let wanting = |hooks: &[Arc<Hook>]| {
            let wants = |hook: &Arc<Hook>| Some((Arc::clone(hook), hook.wants(catalog, place)?.to_owned()));
            hooks.iter().filter_map(wants).collect()
        };
        Relevant { mutating: wanting(&mutating), validating: wanting(&validating), inside }
    }
}
