//! What a shim that was killed leaves behind.
//!
//! The program itself dies with its shim, but what it had started does not. It is found by its control group, by the
//! pipes that the container's output went through, or by a mark in its environment: nobody else ever had these. A session
//! in which one such process is left is the container's too, since its number cannot have been given to another one
//! meanwhile. Without control groups a process is not found that went into a session of its own, closed its output and
//! was started with an environment from which the mark was taken.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::cgroup::Cgroups;
use super::files::{CLAIM, Claim, MARK, boot_id};
use crate::proc::{self, Process};

/// Ends what is left of a container whose shim is dead, and waits a moment for its end.
pub(super) fn sweep(dir: &Path) {
    let Some(claim) = Claim::read(dir).filter(|claim| claim.boot == boot_id()) else { return };
    let groups = Cgroups::of(dir);
    for _ in 0..100 {
        let all = proc::all();
        let left = remains(&all, &claim, &groups);
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|process| process.kill());
        thread::sleep(Duration::from_millis(2));
    }
    groups.remove();
}

/// When the run was claimed, as far as the file system knows.
pub(super) fn claimed_at(dir: &Path) -> Option<jiff::Timestamp> {
    jiff::Timestamp::try_from(fs::metadata(dir.join(CLAIM)).ok()?.modified().ok()?).ok()
}

fn remains<'a>(all: &'a [Process], claim: &Claim, groups: &Cgroups) -> Vec<&'a Process> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let fenced: HashSet<i32> = groups.pids().into_iter().collect();
    let pipes: Vec<String> = claim.pipes.iter().map(|pipe| format!("pipe:[{pipe}]")).collect();
    let living = || all.iter().filter(|process| !process.is_zombie() && process.pid != own);
    let mut sure: HashSet<i32> = living()
        .filter(|process| {
            fenced.contains(&process.pid) || writes_to(process.pid, &pipes) || is_marked(process, claim)
        })
        .map(|process| process.pid)
        .collect();
    let session = i32::try_from(claim.shim).unwrap_or_default();
    if living().any(|process| sure.contains(&process.pid) && process.session == session) {
        sure.extend(living().filter(|process| process.session == session).map(|process| process.pid));
    }
    let roots: Vec<i32> = sure.iter().copied().collect();
    sure.extend(proc::descendants(all, &roots).iter().map(|process| process.pid));
    living().filter(|process| sure.contains(&process.pid)).collect()
}

/// A claim of an earlier version has no mark.
fn is_marked(process: &Process, claim: &Claim) -> bool {
    !claim.mark.is_empty() && process.start >= claim.since && process.was_given(MARK, &claim.mark)
}

fn writes_to(pid: i32, pipes: &[String]) -> bool {
    [1, 2].iter().any(|fd| {
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
        pipes.iter().any(|pipe| link.as_os_str() == pipe.as_str())
    })
}
