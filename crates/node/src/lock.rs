//! A lock on a file that its holder's death releases, and that others may look at without touching it.
//!
//! The kernel keeps it per open file, not per process (an "open file description lock"): no child inherits it, since
//! the descriptor is closed on `exec`, and closing another descriptor of the same file does not lose it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use thiserror::Error;

/// The pid is written with a fixed width, so that a reader never sees half of an old one behind a new one.
const WIDTH: usize = 11;

/// A lock that is held while this value lives.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl Drop for FileLock {
    /// Said and not only let go: a child that is just being started has a copy of the descriptor for a moment.
    fn drop(&mut self) {
        let _closed_anyway = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
    }
}

/// Why a lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("somebody else holds it{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// Who, if it has said so already.
        pid: Option<u32>,
    },
    /// The file itself is the trouble.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a process that once took a lock can still have it: it is there, and more than the memory of its exit code.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

impl FileLock {
    /// The same, but a holder that is dead is waited for as long as `patience` says: a process that was killed lets go only
    /// when all of it is gone, and so does a child that it was just starting.
    ///
    /// # Errors
    /// As [`FileLock::acquire`]. Who is said to hold the lock is alive.
    pub fn succeed(path: &Path, mut patience: impl FnMut() -> bool) -> Result<Self, LockError> {
        loop {
            match Self::acquire(path) {
                Err(LockError::Held { pid: Some(pid) }) if !is_alive(pid) => {
                    if !patience() {
                        return Err(LockError::Held { pid: None });
                    }
                }
                other => return other,
            }
        }
    }

    /// Takes the lock or says who has it; never waits, since what is locked here is held for as long as a process lives.
    ///
    /// # Errors
    /// When somebody holds it, or the file cannot be made or written.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Err(LockError::Held { pid: read_pid(&file) }),
            Err(error) => return Err(LockError::Io(error.into())),
        }
        let pid = format!("{:>1$}\n", std::process::id(), WIDTH - 1);
        if let Err(error) = file.write_all_at(pid.as_bytes(), 0) {
            // The number only helps those who ask who has the lock. A disk that is full must not keep us from it, but the
            // number of another must not stay.
            if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                return Err(error.into());
            }
            file.set_len(0)?;
        }
        Ok(Self { file })
    }
}

/// Whether somebody holds the lock. Only looks: whoever starts at this moment is not disturbed. A lock that cannot be
/// looked at (no descriptor is left, say) counts as held: what depends on a free one is an end, and that cannot be undone.
pub fn is_held(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => locked(&file),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Who holds the lock, if anybody does and has said so already.
pub fn holder(path: &Path) -> Option<u32> {
    let file = File::open(path).ok()?;
    locked(&file).then(|| read_pid(&file)).flatten()
}

fn locked(file: &File) -> bool {
    let mut found = whole_file(libc::F_WRLCK);
    match fcntl(file, FcntlArg::F_OFD_GETLK(&mut found)) {
        Ok(_) => i32::from(found.l_type) != libc::F_UNLCK,
        Err(_) => false,
    }
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = [0; WIDTH];
    file.read_exact_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
