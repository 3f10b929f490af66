//! What a machine has to have for a node, and the plain words for what is missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Programs, and the Debian packages they are in.
const PROGRAMS: [(&str, &str); 7] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
    ("umount", "mount"),
    ("tar", "tar"),
];
/// Where the package puts them; containerd is told.
pub(super) const PLUGINS: &str = "/usr/lib/cni";
/// Mounts, namespaces and interfaces: bits of what a process may do.
const CAPABILITIES: [(&str, u32); 2] = [("CAP_SYS_ADMIN", 21), ("CAP_NET_ADMIN", 12)];

/// Whether a node can be had here.
pub(super) fn check() -> Result<(), Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut packages: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !folders.iter().any(|folder| folder.join(program).is_file()))
        .map(|(_, package)| *package)
        .collect();
    if !Path::new(PLUGINS).join("bridge").is_file() {
        packages.push("containernetworking-plugins");
    }
    packages.dedup();
    if !packages.is_empty() {
        return Err(missing(format!("packages are missing (apt-get install {})", packages.join(" "))));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match lacking(&status) {
        Some(name) => Err(missing(format!("this process has no {name}; a node needs root"))),
        None if !Path::new("/sys/fs/cgroup").is_dir() => Err(missing("there are no cgroups".into())),
        None => Ok(()),
    }
}

fn missing(why: String) -> Error {
    Error::NoNode { why }
}

/// The first capability that a process lacks, by what the kernel says about it.
fn lacking(status: &str) -> Option<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(line.trim(), 16).ok()?;
    CAPABILITIES.iter().find(|(_, bit)| bits & (1 << bit) == 0).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_may_not_do_is_named() {
        assert_eq!(lacking("Name:\tx\nCapEff:\t000001ffffffffff\n"), None);
        assert_eq!(lacking("CapEff:\t0000000000000000\n"), Some("CAP_SYS_ADMIN"));
        assert_eq!(lacking("CapEff:\t0000000000200000\n"), Some("CAP_NET_ADMIN"));
    }
}
