//! Namespaces that end are told what keeps them, but not at every object that goes: that would be a write for each of
//! thousands of pods, and a count of all that are left.

use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

use crate::store::Key;

const PERIOD: Duration = Duration::from_secs(5);

/// Namespaces in which something changed since they were told.
#[derive(Debug, Default)]
pub(super) struct Reports {
    keys: BTreeSet<Key>,
    due: Option<Instant>,
}

impl Reports {
    pub(super) fn add(&mut self, key: Key) {
        self.keys.insert(key);
        self.due.get_or_insert_with(|| Instant::now() + PERIOD);
    }

    /// The namespaces whose time has come. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> BTreeSet<Key> {
        let Some(due) = self.due else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(due).await;
        self.due = None;
        std::mem::take(&mut self.keys)
    }
}
