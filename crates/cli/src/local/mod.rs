//! One machine: `run`, `up`, `down`. Everything in this process, or in processes it started.

mod display;
mod down;
mod follow;
mod job;
mod machine;
mod places;
mod preflight;
mod rehearsal;
mod replica;
mod run;
mod table;
mod up;

use std::process::ExitCode;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run jobs on this machine and follow them to their end. Needs no cluster and no `up`.
    Run(run::Args),
    /// Be a small cluster of one machine, for `kubectl`, SDKs and the commands below.
    Up(up::Args),
    /// Stop `up`, and end everything it started.
    Down(down::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Up(args) => up::run(args),
        Command::Down(args) => down::run(args),
    }
}
