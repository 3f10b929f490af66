//! The black-box scenarios of the operator we replace, by their numbers in `training-operator-v1.md` 7.4.

mod admission;
mod gangs;
mod mpi_jobs;
mod other_jobs;
mod pytorch_jobs;
mod tf_jobs;
mod tf_wiring;
