//! From how a process ended to what is said about its container.

use jiff::Timestamp;
use nix::sys::wait::WaitStatus;

use super::now;
use crate::runtime::cgroup::Cgroups;
use crate::runtime::{ContainerSpec, Exit, ExitReason};

/// A program that never ran.
pub(super) fn start_error(message: String, tried_at: Timestamp) -> Exit {
    Exit {
        code: 128,
        signal: None,
        reason: ExitReason::StartError,
        message: Some(message),
        started_at: tried_at,
        finished_at: now(),
    }
}

/// A program that ran and ended.
pub(super) fn ended(
    status: Option<WaitStatus>,
    spec: &ContainerSpec,
    groups: &Cgroups,
    started_at: Timestamp,
) -> Exit {
    let (code, signal) = match status {
        Some(WaitStatus::Exited(_, code)) => (code, None),
        Some(WaitStatus::Signaled(_, signal, _)) => (128 + signal as i32, Some(signal as i32)),
        _ => (137, None),
    };
    let mut exit =
        Exit { code, signal, reason: ExitReason::Error, message: None, started_at, finished_at: now() };
    if code == 0 {
        exit.reason = ExitReason::Completed;
    } else if groups.ran_out_of_memory() {
        exit.reason = ExitReason::OomKilled;
        exit.message = spec.limits.memory.map(|bytes| {
            format!("it needed more memory than its limit of {bytes} bytes; raise limits.memory or use less")
        });
    } else if status.is_none() {
        exit.message = Some("its processes could not be ended: they hang in the kernel".to_owned());
    }
    exit
}
