//! Where a container of another user finds its pod's directory.
//!
//! The data directory is closed to everybody but the node's user, and so are often the directories above it. A container
//! of another user sees its pod's directory at a place of its own instead, through a mount.

use std::path::{Path, PathBuf};

use super::Identity;
use crate::env::ConfigError;
use crate::runtime::Mount;

/// The directory for what the node mounts into containers.
pub(crate) const RUN: &str = "/run/trainyard";
/// Where a container of another user finds its pod's directory.
pub(crate) const WORK: &str = "/run/trainyard/work";

/// Where containers of an isolated namespace find this program.
pub const HELPER: &str = "/run/trainyard/trainyard";

/// Where a container starts, and what has to be mounted for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// The pod's directory, as the container sees it.
    pub(crate) directory: PathBuf,
    /// What makes it appear there.
    pub(crate) mount: Option<Mount>,
}

/// Where a container finds its pod's directory `work`. `can_mount` is asked only if it matters.
pub(crate) fn ground(
    identity: Identity,
    node_is_root: bool,
    work: &Path,
    working_dir: Option<&Path>,
    can_mount: impl FnOnce() -> Result<(), String>,
) -> Result<Ground, ConfigError> {
    let as_it_is = Ground { directory: work.to_owned(), mount: None };
    let Some(user) = identity.user.filter(|user| node_is_root && *user != 0) else { return Ok(as_it_is) };
    match can_mount() {
        Ok(()) => {
            let target = PathBuf::from(WORK);
            let mount = Mount { source: work.to_owned(), target: target.clone(), ..Mount::default() };
            Ok(Ground { directory: target, mount: Some(mount) })
        }
        // It starts elsewhere, and can do so without a home.
        Err(_) if !identity.isolated && working_dir.is_some_and(Path::is_absolute) => Ok(as_it_is),
        Err(why) => Err(ConfigError::new(format!(
            "the pod's directory is closed to user {user} and nothing can be mounted: {why}; or set workingDir to a directory of that user"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: Option<u32>, root: bool, dir: Option<&str>, mounts: bool) -> Result<Ground, String> {
        let identity = Identity { user, ..Identity::default() };
        let can_mount = || if mounts { Ok(()) } else { Err("no".to_owned()) };
        ground(identity, root, Path::new("/data/work"), dir.map(Path::new), can_mount).map_err(|e| e.message)
    }

    #[test]
    fn only_another_user_needs_a_mount() {
        for (user, root) in [(None, true), (Some(0), true), (Some(1000), false), (None, false)] {
            let found = of(user, root, None, false).unwrap();
            assert_eq!(
                (found.directory, found.mount),
                (PathBuf::from("/data/work"), None),
                "{user:?} {root}"
            );
        }
        let found = of(Some(1000), true, Some("/elsewhere"), true).unwrap();
        let mount = found.mount.unwrap();
        assert_eq!((found.directory, mount.source), (PathBuf::from(WORK), PathBuf::from("/data/work")));
        assert_eq!(mount.target, Path::new(WORK));
    }

    #[test]
    fn without_mounts_a_directory_of_ones_own_is_enough() {
        assert_eq!(of(Some(1000), true, Some("/elsewhere"), false).unwrap().mount, None);
        for relative in [None, Some("below")] {
            let why = of(Some(1000), true, relative, false).unwrap_err();
            assert!(why.contains("user 1000") && why.contains("workingDir"), "{why}");
        }
        let isolated = Identity { user: Some(1000), isolated: true, ..Identity::default() };
        let elsewhere = Some(Path::new("/elsewhere"));
        let refused = ground(isolated, true, Path::new("/data/work"), elsewhere, || Err("no".to_owned()));
        assert!(refused.is_err(), "{refused:?}");
    }
}
