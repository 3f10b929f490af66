//! Control groups: limits, and a fence around everything a container starts.
//!
//! Version 1 has a tree per controller, version 2 one tree for all, and many machines have both. A container gets a
//! group in each tree that one of its limits needs, and one in the version 2 tree in any case where that is permitted:
//! no process leaves its group by accident, so that what a dead shim left behind can still be found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::files::CGROUPS;
use super::state::checksum;
use super::{Enforceable, Limits};

/// Where the trees are mounted on all machines that have them.
const TREES: &str = "/sys/fs/cgroup";
/// The group that holds all of ours.
const OURS: &str = "trainyard";
/// Microseconds in which a processor quota is counted.
const PERIOD: u64 = 100_000;

/// The groups of one container.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    dirs: Vec<PathBuf>,
}

/// Whether this machine can keep limits on memory and processors. Tried once, by making a group and removing it.
pub fn enforceable() -> Enforceable {
    static FOUND: OnceLock<Enforceable> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let name = format!("probe-{}", std::process::id());
        let works = |limits: Limits| {
            let mut groups = Cgroups::default();
            let done = groups.limit(&name, limits).is_ok();
            groups.remove();
            done
        };
        Enforceable {
            memory: works(Limits { memory: Some(1 << 30), cpu_millis: None }),
            cpu: works(Limits { memory: None, cpu_millis: Some(1000) }),
        }
    })
}

impl Cgroups {
    /// Makes the groups of a run and notes them in its directory. What cannot be had is left out: the node says so
    /// beforehand (see [`enforceable`]).
    pub(crate) fn create(dir: &Path, limits: Limits) -> Self {
        let name = name_of(dir);
        let mut groups = Self::default();
        let _fence_only_where_permitted = version2().map(|tree| groups.add(&tree.join(OURS).join(&name)));
        for one in [Limits { cpu_millis: None, ..limits }, Limits { memory: None, ..limits }] {
            let _goes_on_without = groups.limit(&name, one);
        }
        let lines: String = groups.dirs.iter().map(|dir| format!("{}\n", dir.display())).collect();
        if !lines.is_empty() {
            let _only_for_exec_and_cleaning = fs::write(dir.join(CGROUPS), lines);
        }
        groups
    }

    /// The groups a run was given.
    pub(crate) fn of(dir: &Path) -> Self {
        let lines = fs::read_to_string(dir.join(CGROUPS)).unwrap_or_default();
        Self { dirs: lines.lines().map(PathBuf::from).collect() }
    }

    /// Puts this process, and all it will start, into the groups.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.dirs.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"))
    }

    /// Every process in them.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = Vec::new();
        for dir in &self.dirs {
            let lines = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            pids.extend(lines.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0));
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Whether the kernel ended a process of the container for want of memory within its limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.dirs.iter().flat_map(|dir| [dir.join("memory.oom_control"), dir.join("memory.events")]).any(
            |file| {
                let text = fs::read_to_string(file).unwrap_or_default();
                text.lines()
                    .filter_map(|line| line.strip_prefix("oom_kill "))
                    .any(|count| count.trim() != "0")
            },
        )
    }

    /// Removes the groups; those that still hold a dying process after a while stay behind, empty and harmless.
    pub(crate) fn remove(&self) {
        for dir in &self.dirs {
            for _ in 0..50 {
                match fs::remove_dir(dir) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(2));
                    }
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }

    fn add(&mut self, dir: &Path) -> io::Result<()> {
        if self.dirs.iter().any(|known| known == dir) {
            return Ok(());
        }
        fs::create_dir_all(dir)?;
        self.dirs.push(dir.to_owned());
        Ok(())
    }

    fn limit(&mut self, name: &str, limits: Limits) -> io::Result<()> {
        if let Some(bytes) = limits.memory {
            let dir = self.group_for("memory", name)?;
            if dir.join("memory.max").exists() {
                fs::write(dir.join("memory.max"), bytes.to_string())?;
                let _not_everywhere = fs::write(dir.join("memory.swap.max"), "0");
            } else {
                fs::write(dir.join("memory.limit_in_bytes"), bytes.to_string())?;
                let _not_everywhere = fs::write(dir.join("memory.memsw.limit_in_bytes"), bytes.to_string());
            }
        }
        if let Some(millis) = limits.cpu_millis {
            let dir = self.group_for("cpu", name)?;
            let quota = (millis.saturating_mul(PERIOD) / 1000).max(1000);
            if dir.join("cpu.max").exists() {
                fs::write(dir.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            } else {
                fs::write(dir.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                fs::write(dir.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        Ok(())
    }

    /// The group of this container in the tree that has the controller.
    fn group_for(&mut self, controller: &str, name: &str) -> io::Result<PathBuf> {
        let tree = Path::new(TREES).join(controller);
        if tree.join("cgroup.procs").exists() {
            let dir = tree.join(OURS).join(name);
            self.add(&dir)?;
            return Ok(dir);
        }
        let tree = version2().ok_or(io::ErrorKind::NotFound)?;
        let ours = tree.join(OURS);
        fs::create_dir_all(&ours)?;
        for above in [&tree, &ours] {
            fs::write(above.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
        let dir = ours.join(name);
        self.add(&dir)?;
        Ok(dir)
    }
}

/// The version 2 tree: the main one, or the one beside version 1.
fn version2() -> Option<PathBuf> {
    [PathBuf::from(TREES), Path::new(TREES).join("unified")]
        .into_iter()
        .find(|tree| tree.join("cgroup.controllers").exists())
}

/// Readable as far as it goes, unique because of the checksum of the whole path.
fn name_of(dir: &Path) -> String {
    let tail: Vec<String> =
        dir.iter().rev().take(2).map(|part| part.to_string_lossy().into_owned()).collect();
    let tail: String = tail.into_iter().rev().collect::<Vec<_>>().join("-");
    let plain: String = tail.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(80).collect();
    format!("{plain}-{:016x}", checksum(dir.as_os_str().as_encoded_bytes()))
}
