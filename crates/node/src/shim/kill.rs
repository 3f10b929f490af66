//! Ending everything that is left of a container.

use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::proc;
use crate::runtime::cgroup::Cgroups;

/// A process the kernel cannot end in this time hangs in a driver or a dead file system: nobody can end it then.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of the children when they were last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaped {
    /// How the container's program ended, if it just did.
    pub(super) main: Option<WaitStatus>,
    /// Nothing of the container is left.
    pub(super) none_left: bool,
}

/// Collects the children that have ended. As the subreaper, this process inherits every orphan of the container: when
/// it has no child left, nothing is left.
pub(super) fn reap(main: Pid) -> Reaped {
    let mut found = Reaped { main: None, none_left: false };
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return found,
            Ok(status) if status.pid() == Some(main) => found.main = Some(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => {
                found.none_left = true;
                return found;
            }
        }
    }
}

/// Ends every process of the container, also those that went into a group or session of their own, and those that are
/// being started meanwhile.
pub(super) fn kill_all(main: Pid, groups: &Cgroups) -> Reaped {
    let own = Pid::this().as_raw();
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    let mut ended = None;
    loop {
        let reaped = reap(main);
        ended = reaped.main.or(ended);
        let fenced = groups.pids();
        if (reaped.none_left && fenced.is_empty()) || Instant::now() > until {
            return Reaped { main: ended, none_left: reaped.none_left };
        }
        let all = proc::all();
        for process in proc::descendants(&all, &[own]) {
            process.kill();
        }
        for process in all.iter().filter(|process| fenced.contains(&process.pid) && process.pid != own) {
            process.kill();
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
