//! Whole lives of jobs: the real operator on the real API server, in virtual time.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod chaos;
mod first_failure;
mod framework;
mod host;
mod kit;
mod life;
mod lives;
mod poison;
mod restarts;
mod ring;
mod scenarios;
mod support;
mod upstream_crds;
mod waiting;
