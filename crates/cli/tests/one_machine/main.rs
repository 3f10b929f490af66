//! The binary on this machine, with real processes: `run`, `up`, `down`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected has to fail, and loudly; what was measured is reported"
)]

mod bad_input;
mod disk;
mod gangs;
mod gpus;
mod hangs;
mod hostile;
mod kill;
mod kit;
mod limits;
mod orphans;
mod pods;
mod reach;
mod rescue;
mod run;
mod up;
mod users;
