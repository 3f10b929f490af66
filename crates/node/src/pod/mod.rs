//! One pod on this machine: looked at, decided about, worked on, until it is over.

mod look;
mod message;
mod object;
mod probes;
mod refresh;
mod sight;
mod start;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod worker;

pub use self::sight::BackOff;
pub(crate) use self::start::limits_not_kept;
pub(crate) use self::status::ADDRESS;
pub(crate) use self::worker::Worker;
