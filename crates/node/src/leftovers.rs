//! What pods leave whose objects are gone: their logs. How much of that stays is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::disk::Disk;

/// How much stays of all that pods leave whose objects are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// For how long.
    pub age: Duration,
    /// Bytes on disk, of all of them together.
    pub bytes: u64,
    /// Files and directories, of all of them together.
    pub files: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3600), bytes: 10 << 30, files: 100_000 }
    }
}

/// What one pod left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leftover {
    gone: Timestamp,
    bytes: u64,
    files: u64,
}

/// Knows what was measured before: what is left does not change any more.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    measured: BTreeMap<String, Leftover>,
}

impl Leftovers {
    /// Removes what is too old or too much. It walks through directories: for threads that may block.
    pub(crate) fn sweep(&mut self, disk: &Disk, keep: Keep, now: Timestamp) {
        let there: BTreeSet<String> = disk.uids().into_iter().collect();
        self.measured.retain(|uid, _| there.contains(uid));
        for uid in there {
            if self.measured.contains_key(&uid) {
                continue;
            }
            let Some(gone) = disk.owner(&uid).and_then(|owner| owner.gone) else { continue };
            let (bytes, files) = measure(&disk.pod(&uid));
            self.measured.insert(uid, Leftover { gone, bytes, files });
        }
        for uid in surplus(&self.measured, keep, now) {
            match disk.forget(&uid) {
                Ok(()) => drop(self.measured.remove(&uid)),
                Err(error) => tracing::warn!(uid, %error, "cannot remove old logs; will retry"),
            }
        }
    }
}

/// What has to go, the oldest first: what is too old, and then as much as does not fit.
fn surplus(all: &BTreeMap<String, Leftover>, keep: Keep, now: Timestamp) -> Vec<String> {
    let mut oldest_first: Vec<(&String, &Leftover)> = all.iter().collect();
    oldest_first.sort_by_key(|(uid, left)| (left.gone, *uid));
    let sum = |of: fn(&Leftover) -> u64| all.values().map(of).fold(0, u64::saturating_add);
    let (mut bytes, mut files) = (sum(|left| left.bytes), sum(|left| left.files));
    let mut going = Vec::new();
    for (uid, left) in oldest_first {
        let age = Duration::try_from(now.duration_since(left.gone)).unwrap_or_default();
        if age <= keep.age && bytes <= keep.bytes && files <= keep.files {
            break;
        }
        bytes = bytes.saturating_sub(left.bytes);
        files = files.saturating_sub(left.files);
        going.push(uid.clone());
    }
    going
}

/// Bytes on disk, and how many files and directories. What cannot be looked at counts as nothing.
fn measure(root: &Path) -> (u64, u64) {
    let (mut bytes, mut files) = (0_u64, 0_u64);
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
        files = files.saturating_add(1);
        if found.is_dir() {
            let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            open.extend(entries.into_iter().flatten().map(|entry| entry.path()));
        }
    }
    (bytes, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn left(gone: i64, bytes: u64, files: u64) -> Leftover {
        Leftover { gone: at(gone), bytes, files }
    }

    #[test]
    fn the_oldest_go_until_the_rest_is_neither_too_old_nor_too_much() {
        let all: BTreeMap<String, Leftover> =
            [("c", left(30, 5, 10)), ("a", left(10, 5, 1)), ("b", left(20, 5, 1)), ("d", left(40, 1, 1))]
                .into_iter()
                .map(|(uid, left)| (uid.to_owned(), left))
                .collect();
        let keep = |age, bytes, files| Keep { age: Duration::from_secs(age), bytes, files };
        let cases: [(Keep, &[&str]); 7] = [
            (keep(100, 100, 100), &[]),
            (keep(25, 100, 100), &["a", "b"]),
            (keep(100, 15, 100), &["a"]),
            (keep(100, 6, 100), &["a", "b"]),
            (keep(100, 100, 12), &["a"]),
            (keep(100, 100, 10), &["a", "b", "c"]),
            (keep(100, 0, 100), &["a", "b", "c", "d"]),
        ];
        for (keep, gone) in cases {
            assert_eq!(surplus(&all, keep, at(50)), gone, "{keep:?}");
        }
        assert!(
            surplus(&all, keep(0, 100, 100), at(0)).is_empty(),
            "a clock that went back makes nothing old"
        );
    }

    #[test]
    fn only_pods_that_are_gone_are_removed_and_the_cap_holds() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(root.path());
        for number in 0..20 {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(format!("{number:02}"));
            let uid = pod.metadata.uid.clone().unwrap();
            disk.admit(&pod, at(number)).unwrap();
            let run = disk.run(&uid, "c", 0);
            fs::create_dir_all(&run).unwrap();
            for name in ["claim", "state", "log", "cgroups", "shim.lock"] {
                fs::write(run.join(name), "x").unwrap();
            }
            if number < 15 {
                disk.clear(&uid, at(number)).unwrap();
            }
        }
        let mut leftovers = Leftovers::default();
        leftovers.sweep(&disk, Keep { files: 40, ..Keep::default() }, at(100));
        let mut left = disk.uids();
        left.sort();
        assert_eq!(
            left,
            ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19"],
            "eight files for each"
        );
        leftovers.sweep(&disk, Keep { files: 40, ..Keep::default() }, at(100));
        assert_eq!(disk.uids().len(), 10, "and they stay");
        leftovers.sweep(&disk, Keep { age: Duration::from_secs(1), ..Keep::default() }, at(100));
        assert_eq!(disk.uids().len(), 5, "those whose pods are there");
    }
}
