//! One machine: `run`, `up`, `down`, `backup`, `restore`. Everything in this process, or in processes it started.

mod backup;
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
mod runtime;
mod table;
mod up;
mod users;

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
    /// Write all objects of `up` into a directory, also while it runs.
    Backup(backup::BackupArgs),
    /// Put the objects of a backup into a data directory that no `up` uses.
    Restore(backup::RestoreArgs),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    leave_out_checks();
    match command {
        Command::Run(args) => run::run(args),
        Command::Up(args) => up::run(args),
        Command::Down(args) => down::run(args),
        Command::Backup(args) => backup::backup(args),
        Command::Restore(args) => backup::restore(args),
    }
}

/// A damaged file of objects can make the crate panic that reads it. That is caught and becomes an error with advice; what
/// the panic itself has to say helps nobody.
fn leave_out_checks() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(trainyard_host::CHECK_THREAD) {
            others(panic);
        }
    }));
}
