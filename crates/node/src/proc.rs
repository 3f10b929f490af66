//! What `/proc` says about processes: who descends from whom, and what they use.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Ticks of processor time used so far.
    pub(crate) ticks: u64,
    /// Pages of memory.
    pub(crate) pages: u64,
    /// When it started, in ticks since boot: with the pid, what makes a process unique.
    pub(crate) start: u64,
    zombie: bool,
}

impl Process {
    /// The process with this number, if there is one.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Ends this process and never another one that got its number meanwhile.
    pub(crate) fn kill(&self) {
        let Some(fd) = Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        if Self::of(self.pid).is_some_and(|now| now.start == self.start) {
            let _gone_already = pidfd_send_signal(fd, Signal::KILL);
        }
    }

    /// Whether it was started with this variable. False if nobody may know.
    pub(crate) fn was_given(&self, name: &str, value: &str) -> bool {
        let given = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let variable = format!("{name}={value}");
        given.split(|&byte| byte == 0).any(|one| one == variable.as_bytes())
    }

    /// Dead, and only waiting for its parent to notice.
    pub(crate) fn is_zombie(&self) -> bool {
        self.zombie
    }
}

/// All processes of the machine.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::of).collect()
}

/// All descendants of the given processes, without these themselves.
pub(crate) fn descendants<'a>(processes: &'a [Process], roots: &[i32]) -> Vec<&'a Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut seen: HashSet<i32> = roots.iter().copied().collect();
    let mut open: Vec<i32> = roots.to_vec();
    let mut found = Vec::new();
    while let Some(pid) = open.pop() {
        for &child in children.get(&pid).map(Vec::as_slice).unwrap_or_default() {
            if seen.insert(child.pid) {
                found.push(child);
                open.push(child.pid);
            }
        }
    }
    found
}

/// The name may hold anything, spaces and brackets too: the fields begin behind the last bracket.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        pages: number(21)?,
        start: number(19)?,
        zombie: matches!(fields.first(), Some(&"Z" | &"X")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_trouble() {
        let stat = "7 (a) b (c) S 3 7 2 0 -1 0 0 0 0 0 10 5 0 0 20 0 1 0 99 1000 42 0";
        let process = parse(7, stat).unwrap();
        assert_eq!((process.parent, process.session, process.ticks), (3, 2, 15));
        assert_eq!((process.start, process.pages), (99, 42));
    }

    #[test]
    fn this_process_is_there() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().iter().any(|process| process.pid == own));
    }
}
