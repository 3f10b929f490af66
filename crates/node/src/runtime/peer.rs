//! A live shim, seen from outside: found by its lock, held by a descriptor that no other process can take over.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::files::LOCK;
use crate::lock;

/// A shim that was alive when it was looked for.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its process.
    pub(super) pid: i32,
    /// Stays with that process, whoever gets its number later.
    pub(super) fd: OwnedFd,
}

impl Peer {
    /// The live shim of a run. A number alone proves nothing: the descriptor is taken first, and then the lock must still
    /// be held with that number, by a process that says it is the shim of this directory.
    pub(super) fn find(dir: &Path) -> Option<Self> {
        let path = dir.join(LOCK);
        let pid = i32::try_from(lock::holder(&path)?).ok()?;
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let still = lock::holder(&path).and_then(|now| i32::try_from(now).ok()) == Some(pid);
        (still && is_shim_of(pid, dir)).then_some(Self { pid, fd })
    }

    /// Tells the shim to end its container as it would without a control plane.
    pub(super) fn terminate(&self) {
        let _ended_meanwhile = pidfd_send_signal(&self.fd, Signal::TERM);
    }

    /// Tells the shim to look for a request.
    pub(super) fn nudge(&self) {
        let _ended_meanwhile = pidfd_send_signal(&self.fd, Signal::USR1);
    }
}

fn is_shim_of(pid: i32, dir: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|&byte| byte == 0).skip(1);
    let (mode, place) = (words.next(), words.next().map(|word| Path::new(OsStr::from_bytes(word))));
    let same = |place: &Path| place == dir || fs::canonicalize(place).ok() == fs::canonicalize(dir).ok();
    mode == Some(b"shim") && place.is_some_and(same)
}
