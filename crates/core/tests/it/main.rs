//! Tests of the engine from outside: golden files per framework, and properties over a model world.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected has to fail, and loudly"
)]

mod causes;
mod golden;
mod hostile;
mod job_gen;
mod kept;
mod nets;
mod properties;
mod specs;
mod walk;
mod wiring;
mod world;
