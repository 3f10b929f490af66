//! Starting a shim.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, absolute};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::sleep;

use super::files::{self, CLAIM, SPEC};
use super::state::State;
use super::{ContainerSpec, Runtime, RuntimeError};
use crate::files::blocking;

impl Runtime {
    /// Begins a run, and returns when its shim has taken it: from then on it goes on without this process. A run that
    /// was ever begun is not begun again, so that whoever is not sure may just try.
    ///
    /// # Errors
    /// When the directory cannot be written or no shim can be started; then nothing runs.
    pub async fn start(&self, dir: &Path, spec: &ContainerSpec) -> Result<(), RuntimeError> {
        let dir = &absolute(dir).map_err(RuntimeError::file(dir))?;
        let (at, described) = (dir.clone(), spec.clone());
        if !blocking(move || describe(&at, &described)).await? {
            return Ok(());
        }
        let mut child = tokio::process::Command::from(command(&self.shim, &["shim".as_ref(), dir]))
            .arg(&spec.label)
            .spawn()
            .map_err(RuntimeError::Shim)?;
        // Collected even when nobody waits for it any more.
        let mut over = tokio::spawn(async move { child.wait().await });
        let mut pause = Duration::from_millis(1);
        loop {
            let at = dir.clone();
            if blocking(move || State::read(&at)).await.is_ok_and(|state| state.is_some()) {
                return Ok(());
            }
            tokio::select! {
                ended = &mut over => {
                    // It may have claimed the run, and even have ended it, since the last look.
                    let claim = dir.join(CLAIM);
                    if blocking(move || claim.exists()).await {
                        return Ok(());
                    }
                    let code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
                    return Err(RuntimeError::Shim(why(code)));
                }
                () = sleep(pause) => pause = (pause * 2).min(Duration::from_millis(50)),
            }
        }
    }
}

/// Writes down what to run. False if the run was ever begun.
fn describe(dir: &Path, spec: &ContainerSpec) -> Result<bool, RuntimeError> {
    if dir.join(CLAIM).exists() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(RuntimeError::file(dir))?;
    let path = dir.join(SPEC);
    let json = serde_json::to_vec(spec).map_err(|error| RuntimeError::file(&path)(error.into()))?;
    files::write_whole(dir, SPEC, &json).map_err(RuntimeError::file(&path))?;
    Ok(true)
}

/// Tries whether mounts can be made.
pub(super) fn probe(shim: &Path) -> Result<(), String> {
    let output = command(shim, &["shim-probe".as_ref()])
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("it cannot be tried whether mounts are permitted: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Nothing of this process goes to a shim: neither environment nor directory nor files.
pub(super) fn command(shim: &Path, args: &[&Path]) -> Command {
    let mut command = Command::new(shim);
    command.args(args).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A shim that gives up leaves with the number of the error.
fn why(code: Option<i32>) -> io::Error {
    match code {
        Some(0) => io::Error::other("it left the run to another shim, which ended before it had claimed it"),
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other("it was killed"),
    }
}
