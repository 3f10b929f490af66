//! What Trainyard's image does in containers beside the user's, so that a cluster needs no other image.

mod deliver;
pub(crate) mod kubectl;
mod wait;

use std::process::ExitCode;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Wait until a host name is known.
    #[command(hide = true)]
    WaitForHost(wait::Args),
    /// Put a program that understands `kubectl exec` into $TARGET_DIR, and wait for the hosts it is for.
    #[command(hide = true)]
    DeliverKubectl(deliver::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::WaitForHost(args) => wait::run(&args),
        Command::DeliverKubectl(args) => deliver::run(&args),
    }
}

/// As the account of the pod this runs in.
async fn client() -> anyhow::Result<kube::Client> {
    use anyhow::Context as _;
    let config = kube::Config::incluster().context("this is no pod with a service account")?;
    Ok(kube::Client::try_from(config)?)
}
