//! One clock for everything in a test: tokio's own.
//!
//! Under `start_paused` tokio moves time forward whenever nobody has anything to do. A clock that is a fixed base
//! plus the time tokio has counted since makes deadlines, back-offs and time stamps of all parts agree, and an
//! hour of a job's life cost milliseconds.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time. The form that every part of Trainyard takes its clock in.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// When every test begins: a whole second, so that stamps of the first moment lose nothing.
pub const BASE_SECOND: i64 = 1_800_000_000;

/// A clock that starts at [`BASE_SECOND`] now and goes as tokio's time goes.
pub fn virtual_clock() -> Clock {
    virtual_clock_from(Timestamp::from_second(BASE_SECOND).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// A clock that starts at `base` now: for a second life of what an earlier test life wrote down.
pub fn virtual_clock_from(base: Timestamp) -> Clock {
    let start = Instant::now();
    Arc::new(move || base.checked_add(start.elapsed()).unwrap_or(Timestamp::MAX))
}
