//! `trainyard completion`.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Args::command(), "trainyard", &mut script);
    crate::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
