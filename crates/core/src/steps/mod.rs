//! The steps of a plan, one file each, in the order in which [`crate::plan()`] lists them.

pub(crate) mod adoption;
pub(crate) mod build;
pub(crate) mod created;
pub(crate) mod deadline;
pub(crate) mod ending;
pub(crate) mod exits;
pub(crate) mod extras;
pub(crate) mod first;
pub(crate) mod gang;
pub(crate) mod ownership;
pub(crate) mod ports;
pub(crate) mod replicas;
pub(crate) mod restart;
pub(crate) mod services;
pub(crate) mod slots;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod suspension;
pub(crate) mod tally;
pub(crate) mod terminal;
pub(crate) mod tracking;
pub(crate) mod unwritten;
pub(crate) mod verdict;
pub(crate) mod waiting;
