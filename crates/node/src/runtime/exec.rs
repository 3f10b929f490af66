//! A command inside a running container, as probes run one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Instance, Runtime, RuntimeError, start};

/// As much of a probe's output as anybody reads.
const MOST: usize = 10 * 1024;

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Its exit code; 128 plus the signal's number if one ended it; 126 if it could not be started.
    pub code: i32,
    /// The beginning of what it wrote.
    pub output: String,
}

/// Ends the command with all it started when nobody waits for it any more. The group's number stays taken until the
/// child is collected, which only this does.
struct Group {
    child: Child,
    pid: Option<Pid>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ended_meanwhile = killpg(pid, Signal::SIGKILL);
        }
    }
}

impl Runtime {
    /// Runs a command where the container's program runs: its file system, user, directory, environment and limits.
    ///
    /// # Errors
    /// When the container does not run, or the command takes longer than it may.
    pub async fn exec(
        &self,
        dir: &Path,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutcome, RuntimeError> {
        if !matches!(self.glance(dir).await?, Instance::Running { .. }) {
            return Err(RuntimeError::NotRunning);
        }
        let dir = std::path::absolute(dir).map_err(RuntimeError::file(dir))?;
        let mut helper = start::command(&self.shim, &["shim-exec".as_ref(), &dir]);
        helper.args(command.iter().map(OsString::from));
        helper.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = Command::from(helper).kill_on_drop(true).spawn().map_err(RuntimeError::Shim)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let mut group = Group { child, pid };
        match timeout(limit, group.outcome()).await {
            Ok(outcome) => outcome.map_err(RuntimeError::Shim),
            Err(_) => Err(RuntimeError::Timeout(limit)),
        }
    }
}

impl Group {
    async fn outcome(&mut self) -> io::Result<ExecOutcome> {
        let Self { child, pid } = self;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = {
            let reading = async { tokio::join!(fill(stdout, &mut out), fill(stderr, &mut err)) };
            tokio::pin!(reading);
            tokio::select! {
                _ = &mut reading => {
                    let status = child.wait().await?;
                    *pid = None;
                    status
                }
                status = child.wait() => {
                    *pid = None;
                    // What it started in the background may hold its pipes for ever: its own end is what counts.
                    let _the_rest = timeout(Duration::from_millis(200), reading).await;
                    status?
                }
            }
        };
        out.extend_from_slice(&err);
        out.truncate(MOST);
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(137);
        Ok(ExecOutcome { code, output: String::from_utf8_lossy(&out).into_owned() })
    }
}

/// Keeps the beginning and reads on: a command must not stall because nobody reads.
async fn fill(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(count) = pipe.read(&mut chunk).await {
        if count == 0 {
            return;
        }
        let room = MOST.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
}
