//! A pod's volumes as directories of this machine, and where its containers see them.

mod check;
pub(crate) mod host_path;
mod payload;
mod sub_path;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

pub use self::check::check;
use self::payload::Payload;
use crate::env::expand_strict;
use crate::runtime::Mount;
use crate::sources::{NodeFacts, Sources};

/// A volume that cannot be had, or a mount that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VolumeError {
    /// Of the event.
    pub reason: &'static str,
    /// What is wrong and, where that is not the same, what to do.
    pub message: String,
}

impl VolumeError {
    fn new(message: impl Into<String>) -> Self {
        Self { reason: "FailedMount", message: message.into() }
    }
}

/// A volume that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Where.
    pub path: PathBuf,
    /// No container may write to it, whatever its mount says: ConfigMaps and the like, and claims taken so.
    pub read_only: bool,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a volume comes from: who could have put links into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Files that the node writes, and nobody else.
    Files,
    /// A directory that containers write to.
    Directory,
    /// The machine, with the type that the pod says it has.
    Host(String),
}

/// Where a pod's volumes are made, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The pod's own volumes.
    pub root: &'a Path,
    /// Claims, as `<namespace>/<name>`.
    pub claims: &'a Path,
    /// The one user they are for; everybody who gets there if absent.
    pub owner: Option<Owner<'a>>,
}

/// The user of an isolated namespace.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The user, whose group has the same number.
    pub user: u32,
    /// No hostPath may lead into this directory.
    pub closed: &'a Path,
}

/// Makes every volume of the pod. May be called again at any time: what is there stays, and files of ConfigMaps and
/// Secrets are brought up to date, all at once.
pub fn prepare(
    pod: &Pod,
    place: Place<'_>,
    sources: &dyn Sources,
    node: &NodeFacts,
) -> Result<BTreeMap<String, Prepared>, VolumeError> {
    let pod_volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let maker = Maker { pod, place, sources, node };
    pod_volumes.map(|volume| Ok((volume.name.clone(), maker.make(volume)?))).collect()
}

struct Maker<'a> {
    pod: &'a Pod,
    place: Place<'a>,
    sources: &'a dyn Sources,
    node: &'a NodeFacts,
}

impl Maker<'_> {
    fn make(&self, volume: &Volume) -> Result<Prepared, VolumeError> {
        let name = &volume.name;
        let failed = |message: String| VolumeError::new(format!("volume {name:?}: {message}"));
        if !is_component(name) {
            return Err(failed("is no name for a volume".into()));
        }
        if let Some(source) = &volume.host_path {
            let path = match self.place.owner {
                // What the user may not see is not looked at either: the shim opens it as that user.
                Some(owner) => host_path::permitted(source, owner.closed),
                None => host_path::check(source),
            };
            let origin = Origin::Host(source.type_.clone().unwrap_or_default());
            return Ok(Prepared { path: path.map_err(failed)?, read_only: false, origin });
        }
        if let Some(source) = &volume.persistent_volume_claim {
            let path = self.claim(&source.claim_name).map_err(failed)?;
            let read_only = source.read_only == Some(true);
            return Ok(Prepared { path, read_only, origin: Origin::Directory });
        }
        let path = self.place.root.join(name);
        let user = self.place.owner.map(|owner| owner.user);
        if let Some(payload) = self.payload(volume).map_err(failed)? {
            write::replace(&path, &payload, user)
                .map_err(|error| failed(format!("{}: {error}", path.display())))?;
            return Ok(Prepared { path, read_only: true, origin: Origin::Files });
        }
        if let Some(message) = check::refused(volume) {
            return Err(failed(message));
        }
        write::directory(&path, 0o777, user)
            .map_err(|error| failed(format!("{}: {error}", path.display())))?;
        Ok(Prepared { path, read_only: false, origin: Origin::Directory })
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn claim(&self, name: &str) -> Result<PathBuf, String> {
        let namespace = self.namespace();
        let legal = is_component(namespace) && is_component(name);
        if !legal || self.sources.claim(namespace, name).is_none() {
            return Err(format!("persistentvolumeclaim {name:?} not found"));
        }
        let path = self.place.claims.join(namespace).join(name);
        let user = self.place.owner.map(|owner| owner.user);
        write::directory(&path, 0o755, user).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// What is made of files: ConfigMaps, Secrets, the downward API, and several of them projected into one.
    fn payload(&self, volume: &Volume) -> Result<Option<Payload>, String> {
        let from = payload::From { pod: self.pod, sources: self.sources, node: self.node };
        if let Some(source) = &volume.config_map {
            return from.config_map_volume(source).map(Some);
        }
        if let Some(source) = &volume.secret {
            return from.secret_volume(source).map(Some);
        }
        if let Some(source) = &volume.downward_api {
            return from.downward_volume(source).map(Some);
        }
        volume.projected.as_ref().map(|source| from.projected_volume(source)).transpose()
    }
}

/// Whether looking at the pod's volumes may lead out of the node's own directories, to a file system that never answers: by
/// a hostPath, or by a link in a part of a volume.
pub(crate) fn lead_outside(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let parts = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut mounts = parts.flat_map(|container| container.volume_mounts.iter().flatten());
    let is_part = |part: &Option<String>| part.as_ref().is_some_and(|part| !part.is_empty());
    spec.volumes.iter().flatten().any(|volume| volume.host_path.is_some())
        || mounts.any(|mount| is_part(&mount.sub_path) || is_part(&mount.sub_path_expr))
}

/// Whether a volume is made of files, of ConfigMaps, Secrets and the like: it can be made again at any time.
pub(crate) fn is_payload(path: &Path) -> bool {
    path.join(write::DATA).is_symlink()
}

/// The name of the volume's source, as it is written.
fn kind(volume: &Volume) -> Option<String> {
    let value = serde_json::to_value(volume).ok()?;
    value.as_object()?.keys().find(|key| *key != "name").cloned()
}

/// One name that stays inside the directory it is put into.
fn is_component(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// What a container sees where, those further up first, so that one may be mounted inside another. With `isolated`, what
/// others could have changed is left for the shim to open.
pub fn mounts(
    container: &Container,
    volumes: &BTreeMap<String, Prepared>,
    env: &BTreeMap<String, String>,
    isolated: bool,
) -> Result<Vec<Mount>, VolumeError> {
    let mut targets = BTreeSet::new();
    let mut list = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let failed = |message: String| {
            VolumeError::new(format!("container {:?}, mount of {:?}: {message}", container.name, mount.name))
        };
        let Some(volume) = volumes.get(&mount.name) else {
            return Err(failed("the pod has no volume of that name".into()));
        };
        let target = PathBuf::from(&mount.mount_path);
        if !target.is_absolute() || mount.mount_path.contains('\0') {
            return Err(failed(format!("mountPath {:?} must begin with /", mount.mount_path)));
        }
        if !target.components().any(|part| matches!(part, Component::Normal(_))) {
            let why = "is the root of the container, which no volume can be: mount it below";
            return Err(failed(format!("mountPath {:?} {why}", mount.mount_path)));
        }
        if !targets.insert(target.clone()) {
            return Err(failed(format!("mountPath {:?} is used twice", mount.mount_path)));
        }
        let inside = match (mount.sub_path.as_deref(), mount.sub_path_expr.as_deref()) {
            (None | Some(""), Some(expression)) => expand_strict(expression, env)
                .map_err(|name| failed(format!("subPathExpr {expression:?}: {name} is not set")))?,
            (path, _) => path.unwrap_or_default().to_owned(),
        };
        let (source, opened) = match &volume.origin {
            Origin::Directory | Origin::Host(_) if isolated => {
                (volume.path.clone(), Some(sub_path::to_be_opened(volume, &inside).map_err(failed)?))
            }
            Origin::Files | Origin::Directory | Origin::Host(_) => {
                (sub_path::resolve(volume, &inside).map_err(failed)?, None)
            }
        };
        let read_only = volume.read_only || mount.read_only == Some(true);
        list.push(Mount { source, target, read_only, opened });
    }
    list.sort_by_key(|mount| mount.target.components().count());
    Ok(list)
}
