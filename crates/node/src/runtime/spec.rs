//! What the node tells a shim, and what a shim leaves behind. Both are files, so that either side may die in between.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One run of one container: everything the shim has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// `namespace/pod/container`, for people who look at the process list, and for messages.
    pub label: String,
    /// Program and arguments; never empty. A program without a slash is searched for in the `PATH` of `env`.
    pub command: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Where the program starts.
    pub working_dir: PathBuf,
    /// What is mounted where. A mount whose target is its source needs no namespace.
    pub mounts: Vec<Mount>,
    /// User and group to run as; as the shim if absent.
    pub user: Option<u32>,
    /// Group to run as.
    pub group: Option<u32>,
    /// Groups beside that one.
    #[serde(default)]
    pub groups: Vec<u32>,
    /// Users of other containers must not get at what it has: its files are for its user alone.
    #[serde(default)]
    pub isolated: bool,
    /// Neither the program nor what it starts can gain rights, by a set-user-ID file for example.
    #[serde(default)]
    pub no_new_privs: bool,
    /// Resource limits, where the machine can keep them.
    pub limits: Limits,
    /// Its input can be written to; otherwise it is empty.
    #[serde(default)]
    pub stdin: bool,
    /// Its input ends with the first who writes to it.
    #[serde(default)]
    pub stdin_once: bool,
    /// It runs in a terminal.
    #[serde(default)]
    pub tty: bool,
    /// The soft limit of open files; as it is if absent.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// How much of the log is kept.
    pub log: LogRules,
    /// What happens when the control plane goes away.
    pub orphan: Orphan,
}

impl ContainerSpec {
    /// Whether somebody may sit in front of it.
    pub(crate) fn is_interactive(&self) -> bool {
        self.stdin || self.tty
    }
}

/// A file or directory of the machine that the container sees at another place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is.
    pub source: PathBuf,
    /// Where the container sees it: absolute.
    pub target: PathBuf,
    /// The container may not write to it.
    pub read_only: bool,
    /// Where others could put a link in the way: the source is opened with the rights of the container's user. Otherwise
    /// with the shim's.
    #[serde(default)]
    pub opened: Option<Opened>,
}

/// How a source is opened with the rights of the container's user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The source itself is the machine's, and of this type as hostPath volumes name it. Otherwise the node made it.
    pub host: Option<String>,
    /// A place in the source, without links.
    pub inside: PathBuf,
    /// What is missing of that place is made.
    pub create: bool,
}

/// Resource limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory; a container beyond it is killed.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu_millis: Option<u64>,
}

/// Which limits this machine can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforceable {
    /// A container beyond its memory is killed.
    pub memory: bool,
    /// A container gets no more processor time than it may.
    pub cpu: bool,
}

/// How much of the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRules {
    /// A file that has reached this size is put aside and a new one begun.
    pub max_bytes: u64,
    /// How many files are kept, the current one included.
    pub max_files: u32,
}

/// What happens to a container whose control plane went away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// The file the control plane holds a lock on while it lives (see `lock`).
    pub lock: PathBuf,
    /// The container is ended when the lock has been free for this many seconds; never if absent.
    pub after_seconds: Option<u64>,
    /// Seconds between the polite and the final signal then.
    pub grace_seconds: u64,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; 128 plus the signal's number for a process ended by a signal.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Why.
    pub reason: ExitReason,
    /// More, for people.
    pub message: Option<String>,
    /// When the program started; when the start failed, when it was tried.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// Why a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitReason {
    /// Exit code 0.
    Completed,
    /// Another exit code, or a signal.
    Error,
    /// It went beyond its memory limit.
    #[serde(rename = "OOMKilled")]
    OomKilled,
    /// It never started: no such program, a mount that cannot be made. The code is 128.
    StartError,
    /// Nobody knows: its shim was killed, or the machine went down. The code is 137.
    #[serde(rename = "ContainerStatusUnknown")]
    Lost,
}

impl ExitReason {
    /// As in a container's status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Error => "Error",
            Self::OomKilled => "OOMKilled",
            Self::StartError => "StartError",
            Self::Lost => "ContainerStatusUnknown",
        }
    }
}
