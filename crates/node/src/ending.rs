//! Ending what is left: of a control plane, of all its containers.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use crate::lock;
use crate::options::Clock;
use crate::runtime::{self, Runtime};

/// A control plane that has not let go of its lock by then is killed.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// Ends whoever holds a lock, and returns when the lock is free. False if nobody held it.
///
/// # Errors
/// When the holder is somebody else's process.
pub async fn end_holder(path: &Path) -> io::Result<bool> {
    let Some(number) = lock::holder(path) else { return Ok(false) };
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other(format!("{} names no process", path.display())))?;
    // The descriptor is taken first, and then the lock must still be held with that number: a number alone may be
    // another process by now.
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        // It has just ended by itself.
        Err(Errno::SRCH) if !lock::is_held(path) => return Ok(true),
        process => process?,
    };
    if lock::holder(path) != Some(number) {
        return Ok(true);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Err(Errno::SRCH) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    let asked = Instant::now();
    while lock::is_held(path) {
        if asked.elapsed() > PATIENCE {
            // It may be ending at this moment: the lock tells.
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
        sleep(LOOK).await;
    }
    Ok(true)
}

/// Ends all containers in a directory of pods and returns when they have ended. How many there were.
///
/// # Errors
/// When one could not be asked to end; the others have been.
pub async fn end_containers(
    pods: &Path,
    grace: Duration,
    clock: Clock,
) -> Result<usize, runtime::RuntimeError> {
    let now = clock();
    let runtime = Runtime::new(Default::default(), clock);
    let mut ended = BTreeSet::new();
    // Again, because one may have been on its way while the others were listed.
    loop {
        let runs = runtime::end_all(pods, grace, now)?;
        if runs.is_empty() {
            return Ok(ended.len());
        }
        for run in runs {
            runtime.ended(&run).await?;
            // A shim may still be there for a moment after its container: that one is not counted twice.
            if !ended.insert(run) {
                sleep(LOOK).await;
            }
        }
    }
}
