//! What clients share, and nobody may use up: how much of it who has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::Identity;

/// How much of whose. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// The most that one client may have, unless it is the first thing that it has.
    most: u64,
    by_client: Arc<Mutex<HashMap<String, u64>>>,
}

impl Shares {
    pub(crate) fn of(most: u64) -> Self {
        Self { most, by_client: Arc::default() }
    }

    /// Gives so much to a client until the part is dropped. Nothing if it has too much already.
    pub(crate) fn take(&self, identity: &Identity, size: u64) -> Option<Part> {
        let client = identity.payer();
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let held = by_client.get(client).copied().unwrap_or(0);
        // The server's owner could just as well end it.
        if held > 0 && held.saturating_add(size) > self.most && !identity.is_master() {
            return None;
        }
        by_client.insert(client.to_owned(), held.saturating_add(size));
        Some(Part { all: self.clone(), client: client.to_owned(), size })
    }
}

/// What one request has.
#[derive(Debug)]
pub(crate) struct Part {
    all: Shares,
    client: String,
    size: u64,
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut by_client = self.all.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let left = by_client.get(&self.client).map_or(0, |held| held.saturating_sub(self.size));
        if left == 0 {
            by_client.remove(&self.client);
        } else {
            by_client.insert(self.client.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_a_share_and_others_get_theirs() {
        let shares = Shares::of(10);
        let [one, other] = ["a", "b"].map(|name| Identity::account("tenant", name, ""));
        let stranger = Identity::account("else", "a", "");
        let first = shares.take(&one, 11);
        assert!(first.is_some(), "the first may have any size");
        assert!(shares.take(&other, 1).is_none(), "accounts of one namespace are one client");
        assert!(shares.take(&stranger, 1).is_some());
        let owner = Identity::internal("owner");
        let all: Vec<Part> = (0..3).filter_map(|_| shares.take(&owner, 10)).collect();
        assert_eq!(all.len(), 3);
        drop((first, all));
        let parts: Vec<Part> = (0..11).filter_map(|_| shares.take(&other, 1)).collect();
        assert_eq!(parts.len(), 10);
        drop(parts);
        assert!(shares.by_client.lock().unwrap().is_empty(), "nothing is kept of who has nothing");
    }
}
