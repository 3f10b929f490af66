//! The commands that talk to an API server: a cluster's, or that of `trainyard up`. One file per command.

mod apply;
mod cluster;
mod completion;
mod delete;
mod describe;
mod events;
mod fields;
mod gather;
mod get;
mod list;
mod logs;
mod merge;
mod pages;
mod pods;
mod refused;
mod resource;
mod scale;
mod suspend;
mod table;
mod target;
mod time;
mod top;
mod trouble;
mod uninstall;
mod until;
mod wait;
mod why;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;

/// Every client command.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create or change objects from manifests; takes turns with `kubectl apply`.
    Apply(apply::Args),
    /// Show objects of any kind.
    Get(get::Args),
    /// Show all jobs of all kinds, and why those that are not fine are not.
    List(list::Args),
    /// Show everything about one job: conditions, replicas, what it waits for, events.
    Describe(describe::Args),
    /// Show what replicas wrote; -f waits for pods that are not there yet and goes on over restarts.
    Logs(logs::Args),
    /// Delete objects of any kind.
    Delete(delete::Args),
    /// Stop a job: its pods are deleted, the job stays.
    Suspend(suspend::Args),
    /// Let a suspended job run again.
    Resume(suspend::Args),
    /// Change how many replicas a job has.
    Scale(scale::Args),
    /// Wait until jobs have come to a state; returns at once when they never will.
    Wait(wait::Args),
    /// Show the processor time and memory that replicas use.
    Top(top::Args),
    /// Remove what an operator left on pods, so that they can go without it: after the operator was taken away.
    Uninstall(uninstall::Args),
    /// Print a completion script for a shell.
    Completion(completion::Args),
}

/// Runs a command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    // One thread: a client waits for answers and does nothing else.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(Box::pin(dispatch(command)))
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Apply(args) => apply::run(&args).await,
        Command::Get(args) => get::run(&args).await,
        Command::List(args) => list::run(&args).await,
        Command::Describe(args) => describe::run(&args).await,
        Command::Logs(args) => logs::run(args).await,
        Command::Delete(args) => delete::run(&args).await,
        Command::Suspend(args) => suspend::run(&args, true).await,
        Command::Resume(args) => suspend::run(&args, false).await,
        Command::Scale(args) => scale::run(&args).await,
        Command::Wait(args) => wait::run(&args).await,
        Command::Top(args) => top::run(&args).await,
        Command::Uninstall(args) => uninstall::run(&args).await,
        Command::Completion(args) => completion::run(&args),
    }
}
