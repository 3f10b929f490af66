//! The node's cgroup, in the one hierarchy of version 2 or in each of version 1. All containers are below it.

use std::fs;
use std::path::{Path, PathBuf};

use super::NAME;
use crate::Error;

const MOUNT: &str = "/sys/fs/cgroup";
/// Settings that a cpuset of version 1 does not inherit, and without which nothing can be put into it.
const CPUSET: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

fn hierarchies() -> Vec<PathBuf> {
    let mount = Path::new(MOUNT);
    if mount.join("cgroup.controllers").exists() {
        return vec![mount.to_owned()];
    }
    let entries = fs::read_dir(mount).into_iter().flatten().flatten().map(|entry| entry.path());
    // A controller may have its name as a link to the folder it shares with another.
    entries.filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// Makes the cgroup, which a kubelet expects to find.
pub(super) fn make() -> Result<(), Error> {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(NAME);
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        for file in CPUSET.iter().filter(|file| folder.join(file).exists() && hierarchy.join(file).exists()) {
            let value = fs::read_to_string(hierarchy.join(file)).map_err(Error::at(&folder))?;
            fs::write(folder.join(file), value).map_err(Error::at(&folder))?;
        }
    }
    Ok(())
}
