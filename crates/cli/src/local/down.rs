//! `trainyard down`: stops `up`, and ends everything it started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use super::places;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data directory of the `up` to stop [default: $XDG_DATA_HOME/trainyard, ~/.local/share/trainyard].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Seconds that containers have between the polite and the final signal.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    grace_period: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = places::data_dir(args.data_dir)?;
    if !path.is_dir() {
        crate::print(&format!("nothing to stop: there is no data directory {}\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // A directory of somebody else is closed to us: that is not the same as one where nothing runs.
    std::fs::read_dir(&path)
        .with_context(|| format!("cannot look into the data directory {}", path.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(down(&path, Duration::from_secs(args.grace_period)))?;
    Ok(ExitCode::SUCCESS)
}

async fn down(path: &std::path::Path, grace: Duration) -> anyhow::Result<()> {
    let lock = trainyard_host::lock_file(path);
    let stopped = trainyard_node::end_holder(&lock)
        .await
        .with_context(|| format!("cannot stop the trainyard that uses {}", path.display()))?;
    let clock = trainyard_operator::system_clock();
    let ended = trainyard_node::end_containers(&path.join("pods"), grace, clock).await?;
    let who = if stopped { "trainyard is down" } else { "trainyard was not up" };
    crate::print(&format!("{who}; ended {ended} container(s) of {}\n", path.display()))
}
