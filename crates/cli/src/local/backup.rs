//! `trainyard backup` and `trainyard restore`: everything that `up` keeps of its objects, in a directory, and back.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use futures::AsyncReadExt as _;
use trainyard_host::DataDir;

use super::places;
use crate::connect::Connection;

#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// Where the backup goes: a directory that is empty or not there yet.
    #[arg(value_name = "BACKUP")]
    to: PathBuf,
    /// The data directory of `up` [default: as for `up`].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    /// A directory that `trainyard backup` made.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// The data directory that gets the objects [default: as for `up`]. No `up` may use it.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) fn backup(args: BackupArgs) -> anyhow::Result<ExitCode> {
    let path = places::data_dir(args.data_dir)?;
    if !path.is_dir() {
        anyhow::bail!("there is no data directory {}: name one with --data-dir", path.display());
    }
    let (mut file, written) = trainyard_host::begin_backup(&args.to)?;
    let done = if trainyard_node::lock::is_held(&trainyard_host::lock_file(&path)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(fetch(&path, &mut file))
    } else {
        read(&path, &mut file)
    };
    let synced = done.and_then(|()| file.sync_all().context("cannot write the backup"));
    let completed = synced.and_then(|()| Ok(trainyard_host::complete_backup(&path, &args.to)?));
    let objects = completed.inspect_err(|_| {
        // No part of a backup is left that looks like one.
        let _ = std::fs::remove_file(&written);
    })?;
    crate::print(&format!("{objects} object(s) of {} are in {}\n", path.display(), args.to.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// From a running `up`: it is the only one who knows everything.
async fn fetch(data_dir: &Path, file: &mut File) -> anyhow::Result<()> {
    let connection = Connection { kubeconfig: Some(data_dir.join("kubeconfig")), context: None };
    let client = kube::Client::try_from(connection.config().await?)?;
    let request = http::Request::get("/trainyard/backup").body(Vec::new())?;
    let stream = client.request_stream(request).await;
    let stream = stream.with_context(|| format!("cannot reach the `up` that uses {}", data_dir.display()))?;
    let (mut stream, mut buffer) = (std::pin::pin!(stream), vec![0; 256 << 10]);
    loop {
        let length = stream.read(&mut buffer).await.context("`up` went away in the middle of the backup")?;
        if length == 0 {
            return Ok(());
        }
        file.write_all(buffer.get(..length).unwrap_or_default()).context("cannot write the backup")?;
    }
}

/// From a data directory that nobody uses.
fn read(data_dir: &Path, file: &mut File) -> anyhow::Result<()> {
    for part in DataDir::open(data_dir)?.backup()? {
        file.write_all(part.as_ref()).context("cannot write the backup")?;
    }
    Ok(())
}

pub(crate) fn restore(args: RestoreArgs) -> anyhow::Result<ExitCode> {
    crate::log_to_stderr("warn", false);
    let dir = DataDir::open(&places::data_dir(args.data_dir)?)?;
    let (objects, before) = dir.restore(&args.from)?;
    let before =
        before.map_or_else(String::new, |place| format!("; what was there before is in {}", place.display()));
    let path = dir.path().display();
    crate::print(&format!(
        "restored {objects} object(s) to {path}{before}\nstart it:\n  trainyard up --data-dir {path}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
