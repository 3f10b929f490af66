//! Processors, memory, disk and name of this machine, as far as this process may use them.

use std::path::{Path, PathBuf};

/// Reads a file, if it is there. A parameter, so that tests have machines of their own.
type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Affinity and cgroup quota are taken into account by the standard library, rounded down to whole processors.
pub(super) fn cpu_millis() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u64::try_from(processors).unwrap_or(u64::MAX).saturating_mul(1000)
}

/// The machine's memory, or the tightest limit of a cgroup this process is in.
pub(super) fn memory(read: Read<'_>) -> u64 {
    let total = read(Path::new("/proc/meminfo")).and_then(|text| mem_total(&text)).unwrap_or_default();
    cgroup_limit(read).map_or(total, |limit| limit.min(total))
}

fn mem_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Both versions of cgroups. A limit may be set on any group above, and in a container the path of the group may be the
/// host's, so that only the root of what is mounted exists: every level is looked at.
fn cgroup_limit(read: Read<'_>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|level| Path::new(root).join(level).join(file)));
    }
    // Version 2 says `max` where there is no limit, version 1 a number larger than any machine.
    files.iter().filter_map(|file| read(file)?.trim().parse().ok()).min()
}

/// Size of the file system that `path` is on.
pub(super) fn storage(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    stat.blocks().checked_mul(stat.fragment_size())
}

/// In lower case, as names of Kubernetes objects are.
pub(super) fn host_name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.map(|name| name.to_lowercase()).filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".into())
}

/// As Go and therefore Kubernetes calls it.
pub(super) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_with(files: &[(&str, &str)]) -> u64 {
        memory(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       1024 kB\n");

    #[test]
    fn without_limits_it_is_the_machines() {
        assert_eq!(memory_with(&[MEMINFO]), 1 << 20);
        let unlimited = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/user/session\n"),
            ("/sys/fs/cgroup/user/session/memory.max", "max\n"),
        ];
        assert_eq!(memory_with(&unlimited), 1 << 20);
        assert_eq!(memory_with(&[]), 0);
    }

    #[test]
    fn the_tightest_limit_above_counts() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/user/session\n"),
            ("/sys/fs/cgroup/user/session/memory.max", "600000\n"),
            ("/sys/fs/cgroup/user/memory.max", "500000\n"),
        ];
        assert_eq!(memory_with(&files), 500_000);
    }

    #[test]
    fn a_container_sees_only_the_root_of_its_groups() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "5:cpu,memory:/docker/abc\n1:pids:/x\nnonsense\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n"),
        ];
        assert_eq!(memory_with(&files), 700_000);
    }
}
