//! Where things of pods lie on disk.
//!
//! ```text
//! pods/<uid>/
//!   pod.json                      whose directory this is
//!   set-aside                     its object was lost, so its containers go on
//!   work/                         where containers start, unless they say otherwise
//!   volumes/<name>/               emptyDir, ConfigMaps, Secrets
//!   containers/<name>/<run>/      the shim's: spec.json, state, log
//! claims/<namespace>/<name>/      persistent volume claims
//! namespaces/<uid>/               of an isolated namespace: lists of users, claims/<namespace>/<name>/
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::remove::remove_tree;
use crate::runtime::files;
use crate::secrets;

/// Whose directory it is.
const OWNER: &str = "pod.json";

/// The node's part of a data directory.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
}

/// Whose directory it is. It outlives the object, so that logs can be found by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// When the pod came to this machine.
    pub(crate) since: Timestamp,
    /// When its object was gone.
    pub(crate) gone: Option<Timestamp>,
}

impl Disk {
    /// The node's part of the data directory `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory with one directory per pod.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The directory with the claims of namespaces that are not isolated.
    pub(crate) fn claims(&self) -> PathBuf {
        self.root.join("claims")
    }

    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(plain(uid))
    }

    pub(crate) fn work(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("work")
    }

    pub(crate) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    pub(crate) fn container(&self, uid: &str, container: &str) -> PathBuf {
        self.pod(uid).join("containers").join(plain(container))
    }

    pub(crate) fn run(&self, uid: &str, container: &str, number: u32) -> PathBuf {
        self.container(uid, container).join(number.to_string())
    }

    /// Numbers of the runs of a container that are on disk, the newest last.
    ///
    /// # Errors
    /// When nobody can tell: taking that for "none" would run a container twice.
    pub(crate) fn runs(&self, uid: &str, container: &str) -> io::Result<Vec<u32>> {
        let names = names(&self.container(uid, container))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|n| n.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// How many quick ends came before this run.
    pub(crate) fn level(&self, uid: &str, container: &str, number: u32) -> u32 {
        let path = self.container(uid, container).join(format!("{number}.level"));
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    pub(crate) fn set_level(&self, uid: &str, container: &str, number: u32, level: u32) -> io::Result<()> {
        let dir = self.container(uid, container);
        create(&dir)?;
        fs::write(dir.join(format!("{number}.level")), level.to_string())
    }

    /// Makes room for a pod; nothing happens if there is.
    pub(crate) fn admit(&self, pod: &Pod, now: Timestamp) -> io::Result<()> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        // One that cannot be read was damaged by an earlier version and a power cut: it is written again.
        if self.owner(uid).is_some() {
            return Ok(());
        }
        create(&self.work(uid))?;
        create(&self.volumes(uid))?;
        let owner = Owner {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            since: now,
            gone: None,
        };
        self.set_owner(uid, &owner)?;
        // The pod's own directory is new, too.
        fs::File::open(self.pods())?.sync_all()
    }

    fn set_owner(&self, uid: &str, owner: &Owner) -> io::Result<()> {
        files::write_whole(&self.pod(uid), OWNER, &serde_json::to_vec(owner)?)
    }

    /// Gives the pod's directory to its one user, or lets every user of its containers write to it. Nobody else gets
    /// there: what is above is closed.
    pub(crate) fn open_work(&self, uid: &str, owner: Option<u32>) -> io::Result<()> {
        let work = self.work(uid);
        if owner.is_some() {
            chown(&work, owner, owner)?;
        }
        let mode = if owner.is_some() { 0o700 } else { 0o777 };
        fs::set_permissions(work, fs::Permissions::from_mode(mode))
    }

    /// Gives up everything of a pod but its logs.
    pub(crate) fn clear(&self, uid: &str, now: Timestamp) -> io::Result<()> {
        self.scrub(uid);
        for dir in [self.work(uid), self.volumes(uid)] {
            match remove_tree(&dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if !self.pod(uid).exists() {
            return Ok(());
        }
        self.tidy_runs(uid)?;
        match self.owner(uid) {
            Some(Owner { gone: Some(_), .. }) => Ok(()),
            Some(owner) => self.set_owner(uid, &Owner { gone: Some(now), ..owner }),
            // Without one nobody would ever remove it.
            None => {
                let (namespace, name) = (String::new(), String::new());
                self.set_owner(uid, &Owner { namespace, name, since: now, gone: Some(now) })
            }
        }
    }

    /// Leaves of ended runs what somebody may still ask for: the log, and how it ended.
    fn tidy_runs(&self, uid: &str) -> io::Result<()> {
        for container in names(&self.pod(uid).join("containers"))? {
            for entry in names(&self.container(uid, &container))? {
                let path = self.container(uid, &container).join(&entry);
                if entry.parse::<u32>().is_ok() {
                    files::tidy(&path)?;
                } else if entry.ends_with(".level") {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what may hold secrets of a pod that has ended.
    pub(crate) fn scrub(&self, uid: &str) {
        if let Err(error) = secrets::scrub(&self.pod(uid)) {
            tracing::warn!(uid, %error, "cannot remove what may hold secrets of a pod that has ended");
        }
    }

    /// Notes that a pod is unknown because objects were lost: its containers are not ours to end.
    pub(crate) fn set_aside(&self, uid: &str) -> io::Result<()> {
        fs::write(self.aside(uid), "")
    }

    pub(crate) fn is_aside(&self, uid: &str) -> bool {
        self.aside(uid).exists()
    }

    fn aside(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("set-aside")
    }

    /// Removes a pod's directory with its logs.
    pub(crate) fn forget(&self, uid: &str) -> io::Result<()> {
        remove_tree(&self.pod(uid))
    }

    /// Drops older runs of a container, all but the newest two: that one and the one before it.
    pub(crate) fn prune_runs(&self, uid: &str, container: &str) {
        let runs = self.runs(uid, container).unwrap_or_default();
        for number in runs.iter().rev().skip(2) {
            // What cannot be removed now is removed next time.
            let _ = remove_tree(&self.run(uid, container, *number));
            let _ = fs::remove_file(self.container(uid, container).join(format!("{number}.level")));
        }
    }

    pub(crate) fn owner(&self, uid: &str) -> Option<Owner> {
        serde_json::from_slice(&fs::read(self.pod(uid).join(OWNER)).ok()?).ok()
    }

    /// The newest run of each container of a pod.
    pub(crate) fn newest_runs(&self, uid: &str) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for container in names(&self.pod(uid).join("containers"))? {
            let newest = self.runs(uid, &container)?.last().copied();
            found.extend(newest.map(|number| self.run(uid, &container, number)));
        }
        Ok(found)
    }

    /// UIDs of all pods that have a directory.
    pub(crate) fn uids(&self) -> Vec<String> {
        names(&self.pods()).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the directories of pods");
            Vec::new()
        })
    }
}

/// What the node keeps for an isolated namespace.
pub(crate) fn namespace_dir(root: &Path, uid: &str) -> PathBuf {
    root.join("namespaces").join(plain(uid))
}

/// UIDs and container names have no slashes; if one ever had, it could not lead anywhere else.
fn plain(name: &str) -> String {
    name.replace(['/', '\0'], "_").replace("..", "_")
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?.collect::<io::Result<Vec<_>>>()?,
    };
    Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Logs and secrets are the owner's alone.
pub(crate) fn create(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some("u".into());
        pod
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(root.path());
        assert_eq!(disk.runs("u", "c").unwrap(), Vec::<u32>::new());
        disk.set_level("u", "c", 7, 2).unwrap();
        fs::create_dir(disk.run("u", "c", 7)).unwrap();
        assert_eq!((disk.runs("u", "c").unwrap(), disk.level("u", "c", 7)), (vec![7], 2));
        // Not a directory: as unreadable as one for which there is no descriptor left, and root cannot help it.
        remove_tree(&disk.container("u", "c")).unwrap();
        fs::write(disk.container("u", "c"), "").unwrap();
        disk.runs("u", "c").unwrap_err();
        disk.newest_runs("u").unwrap_err();
    }

    #[test]
    fn only_the_newest_two_runs_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(root.path());
        for number in 0..300 {
            disk.set_level("u", "c", number, number).unwrap();
            fs::create_dir(disk.run("u", "c", number)).unwrap();
            disk.prune_runs("u", "c");
        }
        let mut left = names(&disk.container("u", "c")).unwrap();
        left.sort();
        assert_eq!(left, ["298", "298.level", "299", "299.level"]);
    }

    #[test]
    fn a_pod_that_is_gone_keeps_its_logs_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(root.path());
        disk.admit(&pod(), Timestamp::UNIX_EPOCH).unwrap();
        fs::create_dir_all(disk.run("u", "c", 0)).unwrap();
        let spec = disk.run("u", "c", 0).join("spec.json");
        fs::write(&spec, "{}").unwrap();
        disk.set_level("u", "c", 0, 0).unwrap();
        disk.clear("u", Timestamp::UNIX_EPOCH).unwrap();
        assert!(!spec.exists(), "a run that was never claimed has a description, too");
        assert_eq!(names(&disk.container("u", "c")).unwrap(), ["0"]);
        let mut left = names(&disk.pod("u")).unwrap();
        left.sort();
        assert_eq!(left, ["containers", "pod.json"]);
        assert!(disk.owner("u").unwrap().gone.is_some());
        disk.forget("u").unwrap();
        assert!(disk.uids().is_empty());
    }

    #[test]
    fn a_damaged_owner_is_written_again_and_one_that_is_gone_gets_an_end() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(root.path());
        disk.admit(&pod(), Timestamp::UNIX_EPOCH).unwrap();
        // As a power cut left it when the file was not durable.
        fs::write(disk.pod("u").join(OWNER), "").unwrap();
        disk.admit(&pod(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(disk.owner("u").is_some());
        fs::write(disk.pod("u").join(OWNER), "").unwrap();
        disk.clear("u", Timestamp::UNIX_EPOCH).unwrap();
        assert!(disk.owner("u").unwrap().gone.is_some());
        disk.clear("never", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(disk.uids(), ["u"]);
    }
}
