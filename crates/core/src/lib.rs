//! The pure engine of Trainyard: given what is seen of a job, what to do next, as a value.
//!
//! There is no `async` here, no clock, no randomness, no client and no logging. Time is an argument; everything
//! that was decided is in the [`Plan`] that [`plan()`] returns. That is what makes whole lives of jobs testable in
//! microseconds, and what lets the same engine run on a cluster, on one machine and inside `explain`.
//!
//! A **kind** says where things are in an object ([`Kind`]); a **framework** says how replicas find each other
//! ([`Framework`]). Each is one file and one line in a table.

pub mod action;
pub mod admission;
pub mod conditions;
pub mod decode;
mod defaults;
pub mod explain;
pub mod extra;
pub mod field_error;
pub mod framework;
pub mod frameworks;
pub mod invalid;
pub mod job;
pub mod kind;
pub mod kinds;
pub mod names;
pub mod net;
pub mod plan;
pub mod pod;
pub mod pod_draft;
mod quantity;
mod ranges;
pub mod record;
pub mod report;
pub mod seen;
mod steps;
mod validate;

pub use action::{Action, Child, Resource, Why};
pub use decode::{Catalog, Decoded, decode};
pub use extra::{Around, ExtraView};
pub use field_error::FieldError;
pub use framework::{Facts, Framework, Gate, Verdict};
pub use job::{JobView, Policy, Role, Slot};
pub use kind::Kind;
pub use plan::{Plan, plan};
pub use pod::{Cause, ContainerState, ContainerView, End, Phase, PodView, Waits, WaitsOn};
pub use record::{Record, Sweep};
pub use report::{Notice, Report};
pub use seen::{
    Addressing, Ask, GangScheduler, Helpers, Options, PortBlock, PortSpace, Priorities, Seen, ServiceView,
    Tail, WriteFailure,
};
pub use steps::ports::held as ports_held;
pub use steps::tally::{Count, Tally};
pub use steps::tracking::release_all;
