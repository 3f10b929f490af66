//! What an operator is told at its start.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::connect::Connections;

/// Tells the time. Everything that is written down uses it; everything that waits uses tokio's clock. Under tokio's
/// paused clock and a clock made from it, whole months of a job's life pass in milliseconds.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How an operator runs. The defaults suit a cluster.
#[derive(Clone)]
pub struct Options {
    /// Only jobs of this namespace; all of them if absent.
    pub namespace: Option<String>,
    /// Only these kinds of the catalogue, by name; all of them if absent.
    pub kinds: Option<BTreeSet<String>>,
    /// What decisions depend on.
    pub plan: trainyard_core::Options,
    /// First and last host port that jobs may be given: all of them with
    /// [`Addressing::HostPorts`](trainyard_core::Addressing::HostPorts), otherwise those that ask for it.
    pub ports: Option<(u16, u16)>,
    /// How hard it works.
    pub effort: Effort,
    /// How it watches.
    pub watch: Watching,
    /// The connections of the client, if they can be dropped: a dead watch drops them.
    pub connections: Option<Connections>,
    /// What the time is.
    pub clock: Clock,
}

/// How hard an operator works.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Jobs that are worked on at once.
    pub jobs: usize,
    /// Requests for one job at once.
    pub requests_per_job: usize,
    /// Requests at once in the beginning. The number follows what the API server can bear: it grows while answers
    /// are quick and is halved when the server says 429 or 503, or is slow.
    pub requests: usize,
    /// Never fewer requests at once than this.
    pub fewest_requests: usize,
    /// Never more requests at once than this.
    pub most_requests: usize,
    /// No more requests in a second than this, however strong the server is; absent: as many as it can bear.
    pub rate: Option<Rate>,
    /// An answer that takes longer means that the server has too much to do.
    pub slow: Duration,
    /// A request that takes longer is given up.
    pub timeout: Duration,
    /// A job is looked at when nothing has happened to it for this long …
    pub debounce: Duration,
    /// … but no later than this after the first thing that happened.
    pub longest_wait: Duration,
    /// Delay before a failed look at a job is repeated; it doubles with each failure in a row.
    pub first_retry: Duration,
    /// No failed look waits longer for its repetition.
    pub longest_retry: Duration,
    /// Events that may wait to be posted. Beyond that they are dropped and counted.
    pub events: usize,
    /// What is under way when the operator is stopped gets this long to finish, and events that wait as long again.
    pub farewell: Duration,
}

/// So many requests in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time from one request to the next.
    pub pause: Duration,
    /// Requests that need not wait for it after a time of quiet; at least one.
    pub burst: u32,
}

/// How an operator watches.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// Objects per page of a list.
    pub page: u32,
    /// Seconds after which the server ends a watch, at most; it is then taken up again where it was. Watches end up to a
    /// quarter earlier, so that not all of them end at once.
    pub seconds: u32,
    /// A watch that has not ended this long after its time, and is silent, is dead: a new one is opened over a new
    /// connection.
    pub slack: Duration,
    /// A kind that the server does not know is asked for again after this long, which doubles each time …
    pub first_absent: Duration,
    /// … up to this.
    pub absent_kind: Duration,
    /// Delay before a failed watch is repeated; it doubles with each failure in a row.
    pub first_retry: Duration,
    /// No failed watch waits longer.
    pub longest_retry: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: None,
            kinds: None,
            plan: trainyard_core::Options::default(),
            ports: Some((20_000, 29_999)),
            effort: Effort::default(),
            watch: Watching::default(),
            connections: None,
            clock: system_clock(),
        }
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            jobs: 32,
            requests_per_job: 64,
            requests: 64,
            fewest_requests: 4,
            most_requests: 512,
            rate: None,
            slow: Duration::from_secs(2),
            timeout: Duration::from_secs(30),
            debounce: Duration::from_millis(10),
            longest_wait: Duration::from_millis(100),
            first_retry: Duration::from_millis(100),
            longest_retry: Duration::from_secs(60),
            events: 4096,
            farewell: Duration::from_secs(10),
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            page: 500,
            seconds: 40,
            slack: Duration::from_secs(5),
            first_absent: Duration::from_secs(2),
            absent_kind: Duration::from_secs(30),
            first_retry: Duration::from_millis(200),
            longest_retry: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("namespace", &self.namespace)
            .field("kinds", &self.kinds)
            .field("plan", &self.plan)
            .field("ports", &self.ports)
            .field("effort", &self.effort)
            .field("watch", &self.watch)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// The clock of this machine.
pub fn system_clock() -> Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where an operator without a given clock gets one"
    )]
    Arc::new(Timestamp::now)
}
