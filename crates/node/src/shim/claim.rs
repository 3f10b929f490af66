//! Claiming a run: however many shims are started for a directory, one of them runs the container, once.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::now;
use crate::lock::{FileLock, LockError};
use crate::runtime::files::{CLAIM, LOCK};
use crate::runtime::state::State;

/// Takes the run, or nothing if it is somebody else's.
///
/// The lock comes before the claim: whoever sees a claim and a free lock knows that its shim is dead. The state comes
/// last and takes all the room it will ever need; a disk that has none left refuses the run before it begins.
pub(super) fn claim(dir: &Path) -> io::Result<Option<FileLock>> {
    let claim = dir.join(CLAIM);
    if claim.exists() {
        return Ok(None);
    }
    let lock = match FileLock::acquire(&dir.join(LOCK)) {
        Ok(lock) => lock,
        Err(LockError::Held { .. }) => return Ok(None),
        Err(LockError::Io(error)) => return Err(error),
    };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&claim) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    }
    if let Err(error) = reserve(dir) {
        let _may_be_tried_again = std::fs::remove_file(&claim);
        return Err(error);
    }
    Ok(Some(lock))
}

fn reserve(dir: &Path) -> io::Result<()> {
    State::Starting { at: now() }.write(dir)?;
    std::fs::File::open(dir)?.sync_all()
}
