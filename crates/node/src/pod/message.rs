//! What a container says about its end: a file of its run, which the container sees at its `terminationMessagePath`.
//!
//! The file lies in the directory of the run and is mounted where the container looks for it, so that no two containers
//! share one. Every container has a path, because the API fills one in. Root can mount at any time. Other users need a user
//! namespace for it, which changes what they may do: they get one only for a path that was chosen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use crate::runtime::files::MESSAGE;
use crate::runtime::{ContainerSpec, Mount};

/// Where containers leave their message that choose no other place.
const USUAL: &str = "/dev/termination-log";
/// As much as a kubelet takes, from the end.
const MOST: u64 = 4096;

/// Where a container leaves its message.
fn path(container: &Container) -> &Path {
    let chosen = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    Path::new(chosen.unwrap_or(USUAL))
}

/// Whether the container chose a place that it can only have by a mount.
pub(crate) fn is_chosen(container: &Container) -> bool {
    path(container) != Path::new(USUAL)
}

/// Makes the file of a run and shows it to the container, where that is possible. The container runs without it, too.
pub(super) fn provide(
    spec: &mut ContainerSpec,
    container: &Container,
    run: &Path,
    as_root: bool,
    can_mount: impl FnOnce() -> bool,
) {
    let target = path(container);
    let taken = spec.mounts.iter().any(|mount| mount.target == target);
    let has_mounts = spec.mounts.iter().any(|mount| mount.source != mount.target || mount.read_only);
    let wanted = is_chosen(container) || as_root || has_mounts;
    if taken || !wanted || !target.is_absolute() || !can_mount() || !has_place(target) {
        return;
    }
    match make(run) {
        Ok(source) => spec.mounts.push(Mount { source, target: target.to_owned(), ..Mount::default() }),
        Err(error) => {
            tracing::warn!(container = spec.label, %error, "no file for its termination message can be made");
        }
    }
}

/// The usual place is made on the machine itself, empty: a container that had it alone would need a copy of `/dev`.
fn has_place(target: &Path) -> bool {
    if target != Path::new(USUAL) {
        return true;
    }
    let _is_there_already = File::create_new(target);
    target.is_file()
}

/// Every user of the container may write to it. Nobody else gets there: the directory is closed.
fn make(run: &Path) -> io::Result<PathBuf> {
    crate::disk::create(run)?;
    let file = run.join(MESSAGE);
    OpenOptions::new().append(true).create(true).open(&file)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
    Ok(file)
}

/// What the container of a run said; nothing if it said nothing.
pub(super) fn read(run: &Path) -> Option<String> {
    let flags = O_NOFOLLOW | O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(run.join(MESSAGE)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST))).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(mounts: Value) -> ContainerSpec {
        serde_json::from_value(json!({
            "label": "ns/p/c", "command": ["true"], "env": {}, "working_dir": "/", "mounts": mounts, "user": null, "group": null,
            "limits": { "memory": null, "cpu_millis": null }, "log": { "max_bytes": 1, "max_files": 1 },
            "orphan": { "lock": "/lock", "after_seconds": null, "grace_seconds": 1 },
        }))
        .unwrap()
    }

    fn container(path: &str) -> Container {
        Container { termination_message_path: Some(path.to_owned()), ..Container::default() }
    }

    /// Where the container sees its file, if anywhere.
    fn provided(container: &Container, mounts: Value, as_root: bool, can_mount: bool) -> Option<PathBuf> {
        let dir = tempfile::tempdir().unwrap();
        let (run, mut spec) = (dir.path().join("run"), spec(mounts));
        let before = spec.mounts.len();
        provide(&mut spec, container, &run, as_root, || can_mount);
        let added = spec.mounts.get(before)?;
        assert_eq!((&added.source, added.read_only), (&run.join(MESSAGE), false));
        assert!(run.join(MESSAGE).exists());
        Some(added.target.clone())
    }

    #[test]
    fn a_chosen_path_is_provided_where_mounts_are_permitted() {
        let chosen = container("/var/why");
        for as_root in [true, false] {
            assert_eq!(provided(&chosen, json!([]), as_root, true), Some("/var/why".into()));
            assert_eq!(provided(&chosen, json!([]), as_root, false), None);
        }
        let own = json!([{ "source": "/a", "target": "/var/why", "read_only": false }]);
        assert_eq!(provided(&chosen, own, true, true), None, "a volume is there");
        assert_eq!(provided(&container("why"), json!([]), true, true), None);
    }

    #[test]
    fn the_usual_path_alone_is_no_reason_for_a_user_namespace() {
        for usual in [Container::default(), container(""), container(USUAL)] {
            assert!(!is_chosen(&usual));
            assert_eq!(provided(&usual, json!([]), false, true), None);
            let same = json!([{ "source": "/a", "target": "/a", "read_only": false }]);
            assert_eq!(provided(&usual, same, false, true), None);
        }
    }

    #[test]
    fn the_end_of_a_message_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let file = make(dir.path()).unwrap();
        assert_eq!(read(dir.path()), None, "empty");
        fs::write(&file, format!("{}end", "x".repeat(5000))).unwrap();
        let text = read(dir.path()).unwrap();
        assert!(text.len() == 4096 && text.ends_with("xend"), "{}", text.len());
        make(dir.path()).unwrap();
        assert!(read(dir.path()).is_some(), "a start that is tried again loses nothing");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert_eq!(read(dir.path()), None);
    }
}
