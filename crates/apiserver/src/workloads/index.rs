//! Who belongs to whom: found without reading every object of a namespace.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::store::{Event, EventKind, Key, Range, Store, Stored};

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
}

/// One label of a service's selector, by which the pods that may be its endpoints find it.
type Mark = (Box<str>, Box<str>, Box<str>);

/// An object that may own others, and who owns it.
#[derive(Debug)]
struct Owner {
    item: Item,
    above: Box<[Box<str>]>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Pods and replica sets by the uid of each owner.
    children: HashMap<Box<str>, BTreeSet<Key>>,
    /// Pods and replica sets without an owner, by namespace: somebody may adopt them.
    orphans: HashMap<Box<str>, BTreeSet<Key>>,
    /// Those who may be owners, by uid.
    owners: HashMap<Box<str>, Owner>,
    /// Services by one label they select. The label is the one that fewest services share.
    services: HashMap<Mark, BTreeSet<Key>>,
    marks: HashMap<Key, Mark>,
    /// Pods that carry a label some service is found by.
    members: HashMap<Mark, BTreeSet<Key>>,
    /// Labels that pods were not looked through for yet.
    unread: Vec<Mark>,
    /// How many services with selectors a namespace has: pods of others need no look.
    selecting: HashMap<Box<str>, usize>,
}

fn is_child(key: &Key) -> bool {
    [PODS, REPLICA_SETS, SLICES].contains(&&**key.table())
}

fn is_pod(key: &Key) -> bool {
    &**key.table() == PODS
}

impl Index {
    /// What belongs to an owner.
    pub(super) fn children(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.children.get(uid).into_iter().flatten()
    }

    /// What belongs to nobody in a namespace.
    pub(super) fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.orphans.get(namespace).into_iter().flatten()
    }

    /// Pods that a service may select.
    pub(super) fn members(&self, service: &Key) -> impl Iterator<Item = &Key> {
        self.marks.get(service).and_then(|mark| self.members.get(mark)).into_iter().flatten()
    }

    /// Looks through the pods for labels that services are newly found by.
    pub(super) fn read_members(&mut self, store: &Store) {
        for mark in std::mem::take(&mut self.unread) {
            let (namespace, label, value) = &mark;
            let prefix = format!("{namespace}/");
            let range = Range { prefix: &prefix, after: None, limit: usize::MAX };
            let carries = |stored: &Arc<Stored>| {
                let labels = stored.labels().unwrap_or_default();
                labels.get(&**label).and_then(serde_json::Value::as_str) == Some(&**value)
            };
            let found = store.page(PODS, range).items.into_iter().filter(carries);
            self.members.insert(mark.clone(), found.map(|stored| stored.key.clone()).collect());
        }
    }

    /// Whether an object with this uid is there that may own pods.
    pub(super) fn is_owner(&self, uid: &str) -> bool {
        self.owners.contains_key(uid)
    }

    /// Takes in one event and says who has to look.
    pub(super) fn take(&mut self, event: &Event) -> Vec<Item> {
        let mut items = Vec::new();
        if let Some(previous) = &event.previous {
            items.extend(self.concerned(previous));
            self.forget(previous);
        }
        if event.kind == EventKind::Deleted {
            items.extend(self.concerned(&event.object));
            items.extend(self.grandparents(&event.object));
            self.forget(&event.object);
            if let Some(kind) = Kind::of(event.object.key.table()) {
                items.push(Item { kind, key: event.object.key.clone() });
                self.owners.remove(&event.object.uid);
                // Its pods may wait for it: they are let go.
                let left = self.children(&event.object.uid).filter(|key| &**key.table() == PODS);
                items.extend(left.map(|key| Item { kind: Kind::Pod, key: key.clone() }));
            }
        } else {
            items.extend(self.seen(&event.object));
        }
        let key = &event.object.key;
        if &**key.table() == ENDPOINTS && event.kind == EventKind::Deleted {
            let key = Key::new(&SERVICES.into(), key.namespace(), key.name());
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
            if kind == Kind::Service {
                self.note_service(stored);
            }
            let owner = Owner { item: item.clone(), above: stored.owners.clone() };
            self.owners.insert(stored.uid.clone(), owner);
            items.push(item);
        }
        if is_child(key) {
            if stored.owners.is_empty() && &**key.table() != SLICES {
                self.orphans.entry(key.namespace().into()).or_default().insert(key.clone());
            }
            for owner in &stored.owners {
                self.children.entry(owner.clone()).or_default().insert(key.clone());
            }
        }
        if is_pod(key) {
            for mark in self.marks_of(stored) {
                if let Some(members) = self.members.get_mut(&mark) {
                    members.insert(key.clone());
                }
            }
        }
        items.extend(self.concerned(stored));
        items
    }

    fn forget(&mut self, stored: &Stored) {
        let key = &stored.key;
        if is_child(key) {
            remove(&mut self.orphans, key.namespace(), key);
            for owner in &stored.owners {
                remove(&mut self.children, owner, key);
            }
        }
        if is_pod(key) {
            for mark in self.marks_of(stored) {
                if let Some(members) = self.members.get_mut(&mark) {
                    members.remove(key);
                }
            }
        }
        if let Some(mark) = self.marks.remove(key) {
            if let Some(keys) = self.services.get_mut(&mark) {
                keys.remove(key);
                if keys.is_empty() {
                    self.services.remove(&mark);
                    self.members.remove(&mark);
                }
            }
            if let Some(count) = self.selecting.get_mut(key.namespace()) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Whose state depends on a child.
    fn concerned(&self, stored: &Stored) -> Vec<Item> {
        if !is_child(&stored.key) {
            return Vec::new();
        }
        let namespace = stored.key.namespace();
        let mut items: Vec<Item> =
            stored.owners.iter().filter_map(|uid| self.owners.get(uid)).map(|o| o.item.clone()).collect();
        if stored.owners.is_empty() && !stored.deleting {
            let adopters = self.owners.values().map(|owner| &owner.item);
            let near = |item: &&Item| item.kind != Kind::Service && item.key.namespace() == namespace;
            items.extend(adopters.filter(near).cloned());
        }
        let unowned = !stored.owners.iter().any(|uid| self.owners.contains_key(uid));
        if is_pod(&stored.key) && unowned && (stored.deleting || stored.owners.is_empty()) {
            items.push(Item { kind: Kind::Pod, key: stored.key.clone() });
        }
        if is_pod(&stored.key) {
            let marks = self.marks_of(stored);
            let keys = marks.iter().filter_map(|mark| self.services.get(mark)).flatten();
            items.extend(keys.map(|key| Item { kind: Kind::Service, key: key.clone() }));
        }
        items
    }

    /// A pod that is gone may be the last one that a deployment waited for.
    fn grandparents(&self, stored: &Stored) -> Vec<Item> {
        let parents = stored.owners.iter().filter_map(|uid| self.owners.get(uid));
        let above = parents.flat_map(|owner| owner.above.iter());
        above.filter_map(|uid| self.owners.get(uid)).map(|owner| owner.item.clone()).collect()
    }

    /// The labels of a pod by which services may be found; none where no service selects.
    fn marks_of(&self, pod: &Stored) -> Vec<Mark> {
        let namespace = pod.key.namespace();
        if self.selecting.get(namespace).is_none_or(|count| *count == 0) {
            return Vec::new();
        }
        let labels = pod.labels().unwrap_or_default();
        let marks = labels.iter().filter_map(|(label, value)| {
            Some((namespace.into(), Box::from(label.as_str()), Box::from(value.as_str()?)))
        });
        marks.collect()
    }

    fn note_service(&mut self, stored: &Stored) {
        let Ok(object) = stored.value() else { return };
        let selector = object.pointer("/spec/selector").and_then(serde_json::Value::as_object);
        let namespace: Box<str> = stored.key.namespace().into();
        let marks = selector.into_iter().flatten().filter_map(|(label, value)| {
            Some((namespace.clone(), Box::from(label.as_str()), Box::from(value.as_str()?)))
        });
        let rarest = marks.min_by_key(|mark| self.services.get(mark).map_or(0, BTreeSet::len));
        if let Some(mark) = rarest {
            if !self.services.contains_key(&mark) {
                self.unread.push(mark.clone());
            }
            self.services.entry(mark.clone()).or_default().insert(stored.key.clone());
            self.marks.insert(stored.key.clone(), mark);
            *self.selecting.entry(namespace).or_default() += 1;
        }
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
