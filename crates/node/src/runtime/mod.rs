//! Containers as processes: what to start, what became of it.
//!
//! The runtime keeps nothing in memory. A run of a container is a directory, and what is known about it is what its shim
//! wrote there; a control plane that comes back asks the same questions about the same directory.

mod attach;
pub(crate) mod cgroup;
mod error;
mod exec;
pub(crate) mod files;
mod live;
pub mod logs;
mod lost;
mod peer;
pub(crate) mod pty;
mod run;
mod spec;
mod start;
pub(crate) mod state;
mod usage;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

pub use self::cgroup::enforceable;
pub use self::error::RuntimeError;
pub use self::exec::ExecOutcome;
use self::files::{CLAIM, LOCK, STOP, StopRequest};
pub use self::live::{end_all, running_under};
use self::peer::Peer;
pub use self::run::{Streams, WindowSize};
pub use self::spec::{ContainerSpec, Enforceable, Exit, ExitReason, Limits, LogRules, Mount, Opened, Orphan};
use self::state::State;
pub use self::usage::Usage;
use crate::files::blocking;
use crate::{lock, secrets};

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A run of a container, as its directory shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Never begun.
    Absent,
    /// Begun; its program does not run yet.
    Starting,
    /// Its program runs.
    Running {
        /// The program's process.
        pid: i32,
        /// Since when.
        started_at: Timestamp,
    },
    /// Over.
    Ended(Exit),
}

/// Starts containers, asks after them, ends them.
#[derive(Clone)]
pub struct Runtime {
    shim: PathBuf,
    clock: Clock,
    can_mount: Arc<OnceLock<Result<(), String>>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("shim", &self.shim).finish_non_exhaustive()
    }
}

impl Runtime {
    /// `shim_program` is normally this program itself; `clock` dates what no shim can date any more.
    pub fn new(shim_program: PathBuf, clock: Clock) -> Self {
        Self { shim: shim_program, clock, can_mount: Arc::default() }
    }

    /// How it stands with a run. It reads files: for threads that may block.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn look(&self, dir: &Path) -> Result<Instance, RuntimeError> {
        if !dir.join(CLAIM).exists() {
            let coming = lock::is_held(&dir.join(LOCK));
            return Ok(if coming { Instance::Starting } else { Instance::Absent });
        }
        // Claimed, so the lock was held before. Free, so the shim is dead; what it left is its last word. Only in this
        // order: the state may have been read before that last word.
        let alive = lock::is_held(&dir.join(LOCK));
        let state = State::read(dir);
        if alive {
            return match state.map_err(RuntimeError::file(dir))? {
                None | Some(State::Starting { .. }) => Ok(Instance::Starting),
                Some(State::Running { pid, started_at }) => Ok(Instance::Running { pid, started_at }),
                Some(State::Ended { exit, .. }) => Ok(Instance::Ended(exit)),
            };
        }
        // A shim that was killed, or one of an earlier version, has left it.
        let _tried_again_next_time = secrets::forget_spec(dir);
        Ok(Instance::Ended(match state {
            Ok(Some(State::Ended { exit, .. })) => exit,
            other => self.lost(dir, other.ok().flatten()),
        }))
    }

    /// As [`Self::look`], on a thread that may block.
    async fn glance(&self, dir: &Path) -> Result<Instance, RuntimeError> {
        let (own, dir) = (self.clone(), dir.to_owned());
        blocking(move || own.look(&dir)).await
    }

    /// Waits until the program runs or the run is over.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub async fn started(&self, dir: &Path) -> Result<Instance, RuntimeError> {
        let mut pause = Duration::from_millis(1);
        loop {
            match self.glance(dir).await? {
                Instance::Absent | Instance::Starting => {}
                other @ (Instance::Running { .. } | Instance::Ended(_)) => return Ok(other),
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Waits until the run is over, whoever started it.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub async fn ended(&self, dir: &Path) -> Result<Exit, RuntimeError> {
        let mut pause = Duration::from_millis(1);
        loop {
            let (own, at) = (self.clone(), dir.to_owned());
            let found = blocking(move || own.look(&at).map(|instance| (instance, Peer::find(&at))));
            let (instance, peer) = found.await?;
            if let Instance::Ended(exit) = instance {
                return Ok(exit);
            }
            if let Some(peer) = peer {
                let fd = watch(peer.fd).map_err(RuntimeError::file(dir))?;
                let _ready = fd.readable().await.map_err(RuntimeError::file(dir))?;
                continue;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Asks a run to end: politely first, for good after the grace period; at once if that is zero. Asking again may
    /// shorten the time. A run that is over, or never began, is left alone. It writes files: for threads that may block.
    ///
    /// # Errors
    /// When the request cannot be written.
    pub fn stop(&self, dir: &Path, grace: Duration) -> Result<(), RuntimeError> {
        request_stop(dir, grace, (self.clock)())
    }

    /// Whether containers can have mounts on this machine, or why not. Tried once, by a process of its own.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn can_mount(&self) -> Result<(), String> {
        self.can_mount.get_or_init(|| start::probe(&self.shim)).clone()
    }

    /// Nobody can say how it ended. Whatever is left of it ends now, and what is said stays the same from here on.
    fn lost(&self, dir: &Path, last: Option<State>) -> Exit {
        lost::sweep(dir);
        let now = (self.clock)();
        let started_at = match last {
            Some(State::Running { started_at, .. }) => started_at,
            Some(State::Starting { at }) => at,
            Some(State::Ended { exit, .. }) => return exit,
            None => lost::claimed_at(dir).unwrap_or(now),
        };
        let message = "its shim was killed or the machine went down: nobody knows how it ended".to_owned();
        let exit = Exit {
            code: 137,
            signal: None,
            reason: ExitReason::Lost,
            message: Some(message),
            started_at,
            finished_at: now.max(started_at),
        };
        let _said_again_next_time = State::Ended { exit: exit.clone(), lost: None }.write(dir);
        exit
    }
}

#[expect(
    deprecated,
    reason = "sound for an owned descriptor, and its successor cannot be called without `unsafe`"
)]
fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

fn request_stop(dir: &Path, grace: Duration, requested_at: Timestamp) -> Result<(), RuntimeError> {
    if !dir.join(LOCK).exists() {
        return Ok(());
    }
    let request = StopRequest { grace_seconds: grace.as_secs_f64(), force: grace.is_zero(), requested_at };
    let path = dir.join(STOP);
    let json = serde_json::to_vec(&request).map_err(|error| RuntimeError::file(&path)(error.into()))?;
    let written = files::write_whole(dir, STOP, &json);
    match (written, Peer::find(dir)) {
        (Ok(()), Some(peer)) => peer.nudge(),
        // A disk that is full must not keep a container alive: without a request it has its own grace period.
        (Err(_), Some(peer)) => peer.terminate(),
        (Ok(()), None) => {}
        (Err(error), None) => return Err(RuntimeError::file(&path)(error)),
    }
    Ok(())
}
