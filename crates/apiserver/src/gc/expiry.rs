//! Events end by themselves: nobody else deletes them, and every job leaves some.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use crate::store::Stored;

const TABLE: &str = "/events";

/// Event versions in the order of their end. One that was replaced meanwhile fails its precondition and is skipped.
#[derive(Debug)]
pub(super) struct Expiry {
    ttl: Duration,
    queue: VecDeque<(Instant, Arc<Stored>)>,
}

impl Expiry {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, queue: VecDeque::new() }
    }

    pub(super) fn add(&mut self, object: &Arc<Stored>) {
        if &**object.key.table() == TABLE {
            self.queue.push_back((Instant::now() + self.ttl, Arc::clone(object)));
        }
    }

    /// The next event version whose time is over. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Arc<Stored> {
        let Some((end, _)) = self.queue.front() else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(*end).await;
        match self.queue.pop_front() {
            Some((_, object)) => object,
            None => std::future::pending().await,
        }
    }
}
