//! The black-box scenarios of the operator we replace, by their numbers in `training-operator-v1.md` 7.4.
//!
//! Left out: 22 and 23 (autoscaler), 28 (admission) and those of kinds that are not there yet.

mod other_jobs;
mod pytorch_jobs;
mod tf_jobs;
mod tf_wiring;
