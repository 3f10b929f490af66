//! The IO shell around the engine, and the library for writing job operators.
//!
//! The engine, `trainyard-core`, decides; this crate watches, asks it, and carries out what it says. It knows jobs,
//! pods and services, but no framework and no rule: an author of an operator brings a [`Catalog`] of kinds and
//! frameworks and gets everything around them: watches that survive bad objects and broken connections, a fair
//! queue, writes that are safe against stale views, crashes and lost answers, adaptive load, events, health.
//!
//! ```no_run
//! use tokio_util::sync::CancellationToken;
//! use trainyard_operator::{Catalog, Operator, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube::Client::try_default().await?;
//! // `Catalog::default()` has every kind and framework of this build. With tables of your own:
//! // `Catalog { kinds: &[&MY_KIND], frameworks: &[&MyFramework] }`.
//! let catalog = Catalog::default();
//! let options = Options { namespace: Some("training".into()), ..Options::default() };
//!
//! let operator = Operator::new(client, catalog, options)?;
//! let health = operator.health();
//! let shutdown = CancellationToken::new();
//! let running = tokio::spawn(operator.run(shutdown.clone()));
//!
//! health.until_ready().await;
//! println!("{} reconciles so far", health.stats().reconciles);
//! shutdown.cancel();
//! running.await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How a change becomes a deed
//!
//! `watch` lists and watches, object by object, and hands text to `sinks`, which put jobs (as text), pods and
//! services (as small structs) into caches and the job's key into the `queue`. The dispatcher in `operator` gives
//! each key to one `reconcile`: `observe` takes what is known from the caches and asks the engine for a plan, `status`
//! writes the plan's record and status on condition of the version that was seen, `execute` carries out the actions
//! in parallel, `report` and `events` tell. What the answers to our own writes show goes into the caches at once, so
//! the next plan knows it even if the watch is late.
//!
//! All that is written down is stamped by [`Options::clock`]; all that waits uses tokio's clock. So everything runs
//! in tokio's paused time.

mod api;
mod children;
pub mod connect;
mod counts;
mod events;
mod execute;
pub mod health;
mod jobs;
pub mod lease;
mod limiter;
mod look;
mod memory;
mod observe;
pub mod operator;
pub mod options;
mod orphans;
mod pod_wire;
mod ports;
mod priorities;
mod queue;
mod reconcile;
mod report;
pub mod rest;
mod shell;
mod sinks;
mod status;
mod tail;
#[cfg(test)]
mod tests;
mod watch;
pub mod webhook;
mod wire;

pub use connect::{Connections, connect};
pub use counts::JobCounts;
pub use health::{Health, SourceState, Stats};
pub use look::{Controller, Kin, Look, look, read_pod, read_service};
pub use operator::{Error, Operator};
pub use options::{Clock, Effort, Options, Rate, Watching, system_clock};
pub use trainyard_core as core;
pub use trainyard_core::Catalog;

/// Runs an operator until `shutdown`; see [`Operator`] for one whose health can be asked.
pub async fn run(
    client: kube::Client,
    catalog: Catalog,
    options: Options,
    shutdown: tokio_util::sync::CancellationToken,
) -> Result<(), Error> {
    Operator::new(client, catalog, options)?.run(shutdown).await;
    Ok(())
}
