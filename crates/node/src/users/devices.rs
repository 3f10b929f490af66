//! Groups that GPUs belong to: `video`, `render` and the like. A user outside of them could not use a GPU.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The groups of this machine's GPUs that somebody needs to use them.
pub(crate) fn device_groups() -> Vec<u32> {
    let found = devices().into_iter().filter_map(|path| fs::metadata(path).ok());
    needed(found.map(|meta| (meta.gid(), meta.mode())))
}

/// Device files of GPUs.
fn devices() -> Vec<PathBuf> {
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("nvidia") || name == "kfd"
    };
    entries("/dev").filter(is_gpu).chain(entries("/dev/dri")).chain(entries("/dev/nvidia-caps")).collect()
}

/// The groups, of devices by group and mode, that may do more than everybody. Never root's.
fn needed(devices: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let matters = devices.filter(|(group, mode)| *group != 0 && mode & 0o060 != 0 && mode & 0o006 != 0o006);
    matters.map(|(group, _)| group).collect::<BTreeSet<u32>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_may_more_than_everybody_are_needed() {
        let devices =
            [(44, 0o20_660), (109, 0o20_660), (44, 0o20_660), (0, 0o20_660), (50, 0o20_666), (60, 0o20_600)];
        assert_eq!(needed(devices.into_iter()), [44, 109]);
    }
}
