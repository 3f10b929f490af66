//! Who depends on whom, by uid.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::store::{Key, Stored};

/// The reverse of `ownerReferences`, and where the owners that are being deleted are.
#[derive(Debug, Default)]
pub(super) struct Graph {
    dependents: HashMap<Box<str>, BTreeSet<Key>>,
    deleting: HashMap<Box<str>, Key>,
}

impl Graph {
    pub(super) fn add(&mut self, object: &Arc<Stored>) {
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().insert(object.key.clone());
        }
        if object.deleting {
            self.deleting.insert(object.uid.clone(), object.key.clone());
        }
    }

    pub(super) fn remove(&mut self, object: &Stored) {
        for owner in &object.owners {
            if let Some(keys) = self.dependents.get_mut(owner) {
                keys.remove(&object.key);
                if keys.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        self.deleting.remove(&object.uid);
    }

    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = Key> {
        self.dependents.get(uid).into_iter().flatten().cloned()
    }

    /// The owner, if it is being deleted and may wait for a dependent.
    pub(super) fn waiting(&self, uid: &str) -> Option<Key> {
        self.deleting.get(uid).cloned()
    }
}
