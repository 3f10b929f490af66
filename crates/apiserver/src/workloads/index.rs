//! Who belongs to whom: found without reading every object of a namespace.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::labels::{Carriers, Marker, Selectors};
use crate::store::{Event, EventKind, Key, Stored};

const PODS: &str = "/pods";
const SERVICES: &str = "/services";
const REPLICA_SETS: &str = "apps/replicasets";
const DEPLOYMENTS: &str = "apps/deployments";
const JOBS: &str = "batch/jobs";
const SLICES: &str = "discovery.k8s.io/endpointslices";
const ENDPOINTS: &str = "/endpoints";

/// Which controller looks at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    Job,
    Service,
    /// A pod that nobody here owns.
    Pod,
}

/// An object somebody has to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

impl Kind {
    fn of(table: &str) -> Option<Self> {
        Some(match table {
            DEPLOYMENTS => Self::Deployment,
            REPLICA_SETS => Self::ReplicaSet,
            JOBS => Self::Job,
            SERVICES => Self::Service,
            _ => return None,
        })
    }

    /// Whether objects of this kind adopt such children.
    fn adopts(self, child: &Key) -> bool {
        match self {
            Self::Deployment => &**child.table() == REPLICA_SETS,
            Self::ReplicaSet | Self::Job => is_pod(child),
            Self::Service | Self::Pod => false,
        }
    }
}

/// An object that may own others, and who owns it.
#[derive(Debug)]
struct Owner {
    item: Item,
    above: Box<[Box<str>]>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    marker: Marker,
    /// Pods and replica sets by the uid of each owner.
    children: HashMap<Box<str>, BTreeSet<Key>>,
    /// Those who may be owners, by uid.
    owners: HashMap<Box<str>, Owner>,
    /// Pods by their labels.
    pods: Carriers,
    /// Pods and replica sets without an owner, by their labels: somebody may adopt them.
    orphans: Carriers,
    /// Services by the labels they select.
    services: Selectors,
    /// Those who may adopt, by the labels they select.
    adopters: Selectors,
}

fn is_child(key: &Key) -> bool {
    [PODS, REPLICA_SETS, SLICES].contains(&&**key.table())
}

fn is_pod(key: &Key) -> bool {
    &**key.table() == PODS
}

/// Whether a child is one that somebody may adopt.
fn is_orphan(stored: &Stored) -> bool {
    stored.owners.is_empty() && [PODS, REPLICA_SETS].contains(&&**stored.key.table())
}

impl Index {
    /// What belongs to an owner.
    pub(super) fn children(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.children.get(uid).into_iter().flatten()
    }

    /// What belongs to nobody and may be selected by an object.
    pub(super) fn orphans(&self, kind: Kind, key: &Key) -> impl Iterator<Item = &Key> {
        let wanted = self.adopters.wanted(&Item { kind, key: key.clone() });
        self.orphans.carrying(wanted.unwrap_or_default())
    }

    /// Pods that a service may select.
    pub(super) fn members(&self, service: &Key) -> impl Iterator<Item = &Key> {
        let wanted = self.services.wanted(&Item { kind: Kind::Service, key: service.clone() });
        self.pods.carrying(wanted.unwrap_or_default())
    }

    /// Whether an object with this uid is there that may own pods.
    pub(super) fn is_owner(&self, uid: &str) -> bool {
        self.owners.contains_key(uid)
    }

    /// Takes in one event and says who has to look.
    pub(super) fn take(&mut self, event: &Event) -> Vec<Item> {
        let mut items = Vec::new();
        if let Some(previous) = &event.previous {
            items.extend(self.owners_of(previous));
            self.unlink(previous);
        }
        let object = &event.object;
        if event.kind == EventKind::Deleted {
            items.extend(self.gone(object));
        } else {
            items.extend(self.seen(object));
        }
        if &**object.key.table() == ENDPOINTS && event.kind == EventKind::Deleted {
            let key = Key::new(&SERVICES.into(), object.key.namespace(), object.key.name());
            items.push(Item { kind: Kind::Service, key });
        }
        items
    }

    /// Takes in an object that is there.
    pub(super) fn seen(&mut self, stored: &Arc<Stored>) -> Vec<Item> {
        let key = &stored.key;
        let mut items = Vec::new();
        if let Some(kind) = Kind::of(key.table()) {
            let item = Item { kind, key: key.clone() };
            let wanted = self.marker.wanted(kind, stored);
            let selectors = if kind == Kind::Service { &mut self.services } else { &mut self.adopters };
            selectors.put(&item, wanted);
            let owner = Owner { item: item.clone(), above: stored.owners.clone() };
            self.owners.insert(stored.uid.clone(), owner);
            items.push(item);
        }
        if !is_child(key) {
            return items;
        }
        for owner in &stored.owners {
            self.children.entry(owner.clone()).or_default().insert(key.clone());
        }
        items.extend(self.owners_of(stored));
        items.extend(self.left_alone(stored));
        if is_orphan(stored) {
            let marks = self.marker.carried(stored);
            if !stored.deleting {
                let adopters = self.adopters.selecting(&marks);
                items.extend(adopters.filter(|item| item.kind.adopts(key)).cloned());
            }
            self.orphans.put(key, marks);
        }
        if is_pod(key) {
            let before = self.pods.put(key, self.marker.carried(stored));
            items.extend(self.services.selecting(before.as_deref().unwrap_or_default()).cloned());
            items.extend(self.services.selecting(self.pods.marks(key)).cloned());
        }
        items
    }

    /// Forgets an object that is gone.
    fn gone(&mut self, stored: &Stored) -> Vec<Item> {
        let key = &stored.key;
        let mut items = self.owners_of(stored);
        items.extend(self.left_alone(stored));
        items.extend(self.grandparents(stored));
        self.unlink(stored);
        if is_pod(key) {
            let before = self.pods.remove(key);
            items.extend(self.services.selecting(before.as_deref().unwrap_or_default()).cloned());
        }
        if let Some(kind) = Kind::of(key.table()) {
            let item = Item { kind, key: key.clone() };
            self.services.remove(&item);
            self.adopters.remove(&item);
            self.owners.remove(&stored.uid);
            items.push(item);
            // Its pods may wait for it: they are let go.
            let left = self.children(&stored.uid).filter(|key| is_pod(key));
            items.extend(left.map(|key| Item { kind: Kind::Pod, key: key.clone() }));
        }
        items
    }

    /// Forgets to whom a child belongs.
    fn unlink(&mut self, stored: &Stored) {
        let key = &stored.key;
        if is_child(key) {
            self.orphans.remove(key);
            for owner in &stored.owners {
                remove(&mut self.children, owner, key);
            }
        }
    }

    /// Those that a child belongs to.
    fn owners_of(&self, stored: &Stored) -> Vec<Item> {
        if !is_child(&stored.key) {
            return Vec::new();
        }
        let owners = stored.owners.iter().filter_map(|uid| self.owners.get(uid));
        owners.map(|owner| owner.item.clone()).collect()
    }

    /// A pod that nobody here owns, if it may have to be let go.
    fn left_alone(&self, stored: &Stored) -> Option<Item> {
        let owned = stored.owners.iter().any(|uid| self.owners.contains_key(uid));
        let waits = stored.deleting || stored.owners.is_empty();
        let alone = is_pod(&stored.key) && !owned && waits;
        alone.then(|| Item { kind: Kind::Pod, key: stored.key.clone() })
    }

    /// A pod that is gone may be the last one that a deployment waited for.
    fn grandparents(&self, stored: &Stored) -> Vec<Item> {
        let parents = stored.owners.iter().filter_map(|uid| self.owners.get(uid));
        let above = parents.flat_map(|owner| owner.above.iter());
        above.filter_map(|uid| self.owners.get(uid)).map(|owner| owner.item.clone()).collect()
    }
}

fn remove(map: &mut HashMap<Box<str>, BTreeSet<Key>>, name: &str, key: &Key) {
    if let Some(keys) = map.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(name);
        }
    }
}
