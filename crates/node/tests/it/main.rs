//! The runtime and its shim, with real processes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing, and what it could not try by printing"
)]

mod exec;
mod harness;
mod kills;
mod lock;
mod logs;
mod mounts;
mod resources;
mod runs;
mod stops;
mod streams;
