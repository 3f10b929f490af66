//! Clients that were written for a real API server, as judges of the embedded one.
//!
//! The same commands go to both. What a real control plane answers is recorded (`TRAINYARD_RECORD=1`) and checked in, so
//! that a difference shows up as one also where no real one can be started.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that meets the unexpected has to fail, and loudly; what was left out has to be said"
)]

#[path = "../one_machine/kit.rs"]
#[expect(dead_code, reason = "shared with the tests on one machine, which use more of it")]
mod kit;

mod clients;
mod kubectl;
mod node;
mod normal;
mod operated;
mod peer;
mod python;
mod servers;
mod transcript;
mod webhook;
