//! Files of a volume, replaced all at once.
//!
//! As a kubelet does it: the files lie in a directory of their own, `..data` is a link to it, and every name in the
//! volume is a link through `..data`. A new version is written beside the old one and the one link is turned, so that a
//! program reading meanwhile sees all of the old files or all of the new ones. The volume's own directory stays, and so
//! does every mount of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::payload::{File, Payload};
use crate::remove::remove_tree;

/// The link to the files that hold at present.
pub(super) const DATA: &str = "..data";
const NEXT: &str = "..data.next";
/// No file of ours is larger: an object has a megabyte or two.
const LARGEST: u64 = 8 << 20;

/// A directory with these permissions, whatever the umask is; one that has an owner is for that user alone. One that is
/// there keeps what it has, but for a wrong owner.
pub(super) fn directory(path: &Path, mode: u32, owner: Option<u32>) -> io::Result<()> {
    let found = fs::metadata(path).ok().filter(Metadata::is_dir);
    let is_theirs = |found: &Metadata| owner.is_none_or(|owner| found.uid() == owner);
    if found.as_ref().is_some_and(is_theirs) {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    if owner.is_some() {
        chown(path, owner, owner)?;
    }
    let mode = if owner.is_some() { 0o700 } else { mode };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Makes `payload` the content of the volume at `path`. The files are their owner's, if there is one; the directories stay
/// ours, so that nobody else changes what is in them.
pub(super) fn replace(path: &Path, payload: &Payload, owner: Option<u32>) -> io::Result<()> {
    directory(path, 0o755, None)?;
    let current = fs::read_link(path.join(DATA)).ok();
    let is_current = |current: &PathBuf| read(&path.join(current), owner).ok().as_ref() == Some(payload);
    if current.as_ref().is_some_and(is_current) {
        return link_names(path, payload);
    }
    let next = unused(path)?;
    for (name, file) in payload {
        write(&path.join(&next).join(name), file, owner)?;
    }
    remove(&path.join(NEXT))?;
    symlink(&next, path.join(NEXT))?;
    fs::rename(path.join(NEXT), path.join(DATA))?;
    link_names(path, payload)?;
    remove_others(path, &next)
}

fn write(path: &Path, file: &File, owner: Option<u32>) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.content)?;
    if owner.is_some() {
        chown(path, owner, owner)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(file.mode))
}

/// A fresh directory. What a control plane that died left half written is never taken up.
fn unused(path: &Path) -> io::Result<String> {
    let mut number = 0_u64;
    loop {
        let name = format!("..{number}");
        match fs::create_dir(path.join(&name)) {
            Ok(()) => {
                fs::set_permissions(path.join(&name), fs::Permissions::from_mode(0o755))?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.saturating_add(1),
            Err(error) => return Err(error),
        }
    }
}

/// The first part of every path becomes a link; links to what is no longer there go.
fn link_names(path: &Path, payload: &Payload) -> io::Result<()> {
    let names: BTreeSet<&str> = payload.keys().filter_map(|name| name.split('/').next()).collect();
    for name in &names {
        if fs::symlink_metadata(path.join(name)).is_err() {
            symlink(Path::new(DATA).join(name), path.join(name))?;
        }
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with("..") || names.contains(name));
        if !ours && entry.file_type()?.is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn remove_others(path: &Path, keep: &str) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let old = name.to_str().is_some_and(|name| name.starts_with("..") && name != keep);
        if old && entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is in a directory, to see whether anything changed. Files of another owner are none of it.
fn read(root: &Path, owner: Option<u32>) -> io::Result<Payload> {
    let mut payload = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            if meta.is_dir() {
                left.push(path);
                continue;
            }
            if owner.is_some_and(|owner| meta.uid() != owner) {
                continue;
            }
            let name = path.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().into_owned();
            let mode = meta.permissions().mode() & 0o777;
            // Something that is not ours is different, whatever is in it: a pipe would be waited for, and a link may lead
            // to what has no end.
            let is_ours = meta.is_file() && meta.len() <= LARGEST;
            let content = if is_ours { fs::read(&path)? } else { Vec::new() };
            payload.insert(name, File { content, mode });
        }
    }
    Ok(payload)
}
