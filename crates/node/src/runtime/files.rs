//! The files of one run of a container, and how they are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ContainerSpec;

/// What the node told the shim.
pub(crate) const SPEC: &str = "spec.json";
/// Made once, by the one shim that runs the container.
pub(crate) const CLAIM: &str = "claim";
/// Locked while that shim lives.
pub(crate) const LOCK: &str = "shim.lock";
/// The newest part of the log; older parts are `log.1`, `log.2`, ….
pub(crate) const LOG: &str = "log";
/// A request to end the container.
pub(crate) const STOP: &str = "stop";
/// What is written here is what the container's program reads.
pub(crate) const STDIN: &str = "stdin";
/// A request to end the container's input.
pub(crate) const STDIN_OVER: &str = "stdin.over";
/// How large the container's terminal should be: columns and rows.
pub(crate) const WINDOW: &str = "window";
/// The control groups the container is in, one path a line.
pub(crate) const CGROUPS: &str = "cgroups";
/// What the container says about its end, where it looks for such a file.
pub(crate) const MESSAGE: &str = "termination-log";
/// Where a container's mounts are prepared; holds something only inside the container's own mount namespace.
pub(crate) const STAGE: &str = "mnt";

/// A request to end a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StopRequest {
    /// Seconds between the polite and the final signal.
    pub(crate) grace_seconds: f64,
    /// No polite signal at all.
    pub(crate) force: bool,
    /// When it was asked for.
    pub(crate) requested_at: Timestamp,
}

/// Who claimed a run, what its container's output goes through, and what marks its processes: enough to find what a dead
/// shim left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The shim.
    pub(crate) shim: u32,
    /// Pids mean nothing after a restart of the machine.
    pub(crate) boot: String,
    /// The pipes that the container's output goes through; none with a terminal.
    pub(crate) pipes: Vec<u64>,
    /// What every process of the container has in its environment, unless it was taken out, and no other process has.
    #[serde(default)]
    pub(crate) mark: String,
    /// When the shim started, in ticks since boot: nothing of the container is older.
    #[serde(default)]
    pub(crate) since: u64,
}

/// The variable with the mark.
pub(crate) const MARK: &str = "TRAINYARD_RUN";

impl Claim {
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(CLAIM)).ok()?).ok()
    }
}

impl StopRequest {
    pub(crate) fn grace(&self) -> Duration {
        if self.force {
            Duration::ZERO
        } else {
            Duration::try_from_secs_f64(self.grace_seconds).unwrap_or_default()
        }
    }

    pub(crate) fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(STOP)).ok()?).ok()
    }
}

/// Numbers drafts of files, so that no two are the same.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Which start of the machine this is.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Reads what the container is.
pub(crate) fn read_spec(dir: &Path) -> io::Result<ContainerSpec> {
    serde_json::from_slice(&fs::read(dir.join(SPEC))?).map_err(io::Error::from)
}

/// What is to become a process of the container, with the mark in its environment.
pub(crate) fn read_marked_spec(dir: &Path) -> io::Result<ContainerSpec> {
    let mut spec = read_spec(dir)?;
    let mark = Claim::read(dir).map(|claim| claim.mark).filter(|mark| !mark.is_empty());
    spec.env.extend(mark.map(|mark| (MARK.to_owned(), mark)));
    Ok(spec)
}

/// Removes from a run that has ended what only a running container needs.
pub(crate) fn tidy(dir: &Path) -> io::Result<()> {
    let needless = [SPEC, LOCK, STOP, STDIN, STDIN_OVER, WINDOW, CGROUPS, MESSAGE];
    let removed = needless.iter().map(|name| fs::remove_file(dir.join(name)));
    removed.chain([fs::remove_dir(dir.join(STAGE))]).try_for_each(|removed| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

/// Writes a file so that it is there as a whole or not at all, and still there after a power cut.
pub(crate) fn write_whole(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    // Two may write at once, a node and `down`: each has its own draft, and the last to finish wins.
    let draft: PathBuf =
        dir.join(format!(".{name}.{}.{}", process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, dir.join(name))?;
    File::open(dir)?.sync_all()
}
