//! A part of a volume, which must be in it: neither `..` nor a link may lead out.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Origin, Prepared};
use crate::runtime::Opened;

/// The place of `inside` in a volume that others can change until it is opened.
pub(super) fn to_be_opened(volume: &Prepared, inside: &str) -> Result<Opened, String> {
    let host = match &volume.origin {
        Origin::Host(kind) => Some(kind.clone()),
        Origin::Files | Origin::Directory => None,
    };
    let mut place = PathBuf::new();
    for part in Path::new(inside).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                return Err(leads_out(inside));
            }
        }
    }
    Ok(Opened { host, inside: place, create: !volume.read_only })
}

fn leads_out(inside: &str) -> String {
    format!("subPath {inside:?} must be relative and without ..")
}

/// The place of `inside` in a volume, made as a directory if it is not there. Step by step, so that no directory is ever
/// made behind a link that leads out. (A container of the same pod that runs already could still swap a directory for
/// a link between the check and the mount; it could reach the same places without that. Isolated namespaces could not, and
/// have theirs opened by the shim.)
pub(super) fn resolve(volume: &Prepared, inside: &str) -> Result<PathBuf, String> {
    if inside.is_empty() {
        return Ok(volume.path.clone());
    }
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let root = fs::canonicalize(&volume.path).map_err(|error| failed(&volume.path, error))?;
    let mut at = root.clone();
    for part in Path::new(inside).components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                return Err(leads_out(inside));
            }
        };
        let next = at.join(name);
        if fs::symlink_metadata(&next).is_err() {
            if volume.read_only {
                return Err(format!("subPath {inside:?} does not exist in the volume"));
            }
            fs::create_dir(&next).map_err(|error| failed(&next, error))?;
        }
        at = fs::canonicalize(&next).map_err(|error| failed(&next, error))?;
        if !at.starts_with(&root) {
            return Err(format!("subPath {inside:?} leads out of the volume"));
        }
    }
    Ok(at)
}
