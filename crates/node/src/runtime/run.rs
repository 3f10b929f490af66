//! A command inside a running container that somebody talks to.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::pty::{self, Player};
use super::{Instance, Runtime, RuntimeError, start};
use crate::files::blocking;
use crate::proc;

/// What is moved at once.
const CHUNK: usize = 32 * 1024;
/// Numbers reports, so that no two are the same.
static REPORTS: AtomicU64 = AtomicU64::new(0);

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// What a process is connected to. What is not there is empty for it, or goes nowhere.
pub struct Streams {
    /// What it reads.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Where it writes.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Where it writes its errors; with a terminal that is the other one.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// It gets a terminal.
    pub tty: bool,
    /// How large that is.
    pub sizes: mpsc::Receiver<WindowSize>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let there = [self.stdin.is_some(), self.stdout.is_some(), self.stderr.is_some()];
        f.debug_struct("Streams").field("there", &there).field("tty", &self.tty).finish_non_exhaustive()
    }
}

/// Which streams there are.
#[derive(Clone, Copy)]
struct Wanted {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Wanted {
    fn by(streams: &Streams) -> Self {
        Self {
            stdin: streams.stdin.is_some(),
            stdout: streams.stdout.is_some(),
            stderr: streams.stderr.is_some(),
            tty: streams.tty,
        }
    }
}

/// A command in a session of its own. Everything in that session ends when nobody waits for it any more.
struct Session {
    child: Child,
    /// Its process and session, until it was collected.
    pid: Option<i32>,
    report: PathBuf,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            end_session(pid);
        }
        let _never_made = fs::remove_file(&self.report);
    }
}

/// Ends every process of a session whose leader was not collected yet, which keeps its number taken.
fn end_session(leader: i32) {
    // What is forked in between is found by the second look.
    for _ in 0..2 {
        for process in proc::all().iter().filter(|process| process.session == leader || process.pid == leader)
        {
            process.kill();
        }
    }
}

impl Runtime {
    /// Runs a command where the container's program runs: its file system, user, directory, environment and limits.
    /// Its exit code, once everything it wrote was handed over; 137 when the container ended before it.
    ///
    /// # Errors
    /// When the container does not run, or the command cannot be started.
    pub async fn run(&self, dir: &Path, command: &[String], streams: Streams) -> Result<i32, RuntimeError> {
        if !matches!(self.glance(dir).await?, Instance::Running { .. }) {
            return Err(RuntimeError::NotRunning);
        }
        let dir = std::path::absolute(dir).map_err(RuntimeError::file(dir))?;
        let (own, at, command, wanted) = (self.clone(), dir.clone(), command.to_vec(), Wanted::by(&streams));
        let (mut session, player) = blocking(move || own.begin(&at, &command, wanted)).await?;
        let code = tokio::select! {
            code = session.talk(streams, player) => code.map_err(RuntimeError::Shim)?,
            // Without the container there is nothing for it to run in.
            over = self.ended(&dir) => over.map(|_| 137)?,
        };
        let report = session.report.clone();
        let told = blocking(move || fs::read_to_string(report).unwrap_or_default()).await;
        if told.is_empty() { Ok(code) } else { Err(RuntimeError::CannotRun(told)) }
    }

    fn begin(
        &self,
        dir: &Path,
        command: &[String],
        wanted: Wanted,
    ) -> Result<(Session, Option<Player>), RuntimeError> {
        let name = format!(".run.{}.{}", std::process::id(), REPORTS.fetch_add(1, Ordering::Relaxed));
        let report = dir.join(name);
        let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&report);
        created.map_err(RuntimeError::file(&report))?;
        let kind = if wanted.tty { "tty" } else { "plain" };
        let mut helper = start::command(&self.shim, &["shim-run".as_ref(), dir, &report, kind.as_ref()]);
        helper.args(command.iter().map(OsString::from));
        let mut player = None;
        if wanted.tty {
            let (own, end) = pty::open().map_err(RuntimeError::Shim)?;
            let share = || end.try_clone().map(Stdio::from).map_err(RuntimeError::Shim);
            helper.stdin(share()?).stdout(share()?).stderr(share()?);
            player = Some(own);
        } else {
            let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
            helper.stdin(pipe(wanted.stdin));
            helper.stdout(pipe(wanted.stdout)).stderr(pipe(wanted.stderr));
        }
        let spawned = Command::from(helper).kill_on_drop(true).spawn();
        let child = spawned.map_err(|error| {
            let _no_longer_needed = fs::remove_file(&report);
            RuntimeError::Shim(error)
        })?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let session = Session { child, pid, report };
        let player = player.map(|own: OwnedFd| Player::new(own)).transpose().map_err(RuntimeError::Shim)?;
        Ok((session, player))
    }
}

impl Session {
    /// Moves everything until the command has ended and all it wrote was handed over.
    async fn talk(&mut self, streams: Streams, player: Option<Player>) -> io::Result<i32> {
        match player {
            Some(player) => self.talk_by_terminal(streams, &player).await,
            None => self.talk_by_pipes(streams).await,
        }
    }

    async fn talk_by_pipes(&mut self, streams: Streams) -> io::Result<i32> {
        let Streams { stdin, stdout, stderr, .. } = streams;
        let (input, output, errors) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let typing = async {
            if let (Some(from), Some(to)) = (stdin, input) {
                pour(from, to).await;
            }
            std::future::pending::<()>().await;
        };
        let ending = async {
            let reading = async {
                tokio::join!(pour_any(output, stdout), pour_any(errors, stderr));
            };
            let (code, ()) = tokio::join!(self.code(), reading);
            code
        };
        tokio::select! {
            code = ending => code,
            () = typing => Ok(137),
        }
    }

    async fn talk_by_terminal(&mut self, streams: Streams, player: &Player) -> io::Result<i32> {
        let Streams { stdin, mut stdout, mut sizes, .. } = streams;
        let typing = async {
            if let Some(mut from) = stdin {
                let mut chunk = vec![0; CHUNK];
                while let Ok(count @ 1..) = from.read(&mut chunk).await {
                    if player.write_all(chunk.get(..count).unwrap_or_default()).await.is_err() {
                        break;
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        let resizing = async {
            while let Some(size) = sizes.recv().await {
                let _only_looks_odd = player.resize(size);
            }
            std::future::pending::<()>().await;
        };
        let ending = async {
            let reading = async {
                let mut chunk = vec![0; CHUNK];
                while let Ok(count @ 1..) = player.read(&mut chunk).await {
                    if let Some(to) = &mut stdout
                        && to.write_all(chunk.get(..count).unwrap_or_default()).await.is_err()
                    {
                        break;
                    }
                }
                drop(stdout);
            };
            let (code, ()) = tokio::join!(self.code(), reading);
            code
        };
        tokio::select! {
            code = ending => code,
            () = typing => Ok(137),
            () = resizing => Ok(137),
        }
    }

    async fn code(&mut self) -> io::Result<i32> {
        let status = self.child.wait().await?;
        self.pid = None;
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(137))
    }
}

/// Moves what one writes to where the other reads, until either has had enough.
async fn pour(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        if to.write_all(chunk.get(..count).unwrap_or_default()).await.is_err() {
            return;
        }
    }
    let _closed_anyway = to.shutdown().await;
}

async fn pour_any(from: Option<impl AsyncRead + Unpin>, to: Option<impl AsyncWrite + Unpin>) {
    if let (Some(from), Some(to)) = (from, to) {
        pour(from, to).await;
    }
}
