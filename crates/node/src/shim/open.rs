//! Opening what is mounted, so that nobody gets more by it than they have.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_path, openat};
use nix::libc;
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::{AccessFlags, eaccess};

use super::person::Person;
use crate::runtime::{Mount, Opened};
use crate::volumes::host_path;

/// The source of a mount.
#[derive(Debug)]
pub(super) enum Found {
    /// By its name.
    Named(PathBuf),
    /// Opened: whatever happens to its name, it is this.
    Held(OwnedFd),
}

impl Found {
    /// A path that leads there as long as this value lives.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Named(path) => path.clone(),
            Self::Held(fd) => PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())),
        }
    }
}

/// Finds the source of a mount: with the rights of the container's user where others could have put a link in the way.
pub(super) fn open(mount: &Mount, person: Option<&Person>) -> io::Result<Found> {
    let (Some(opened), Some(person)) = (&mount.opened, person) else {
        return Ok(Found::Named(mount.source.clone()));
    };
    let root = match &opened.host {
        Some(kind) => person.act(|| of_machine(&mount.source, kind))?,
        None => {
            open_path(&mount.source, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?
        }
    };
    person.act(|| inside(root, opened)).map(Found::Held)
}

/// A hostPath, as its user finds it; one that the user could not open is refused.
fn of_machine(path: &Path, kind: &str) -> io::Result<OwnedFd> {
    let source =
        HostPathVolumeSource { path: path.to_string_lossy().into_owned(), type_: Some(kind.to_owned()) };
    host_path::check(&source).map_err(io::Error::other)?;
    let found = fs::metadata(path)?.file_type();
    let needed = if found.is_dir() {
        AccessFlags::X_OK
    } else if found.is_socket() {
        AccessFlags::W_OK
    } else {
        AccessFlags::R_OK
    };
    eaccess(path, needed)?;
    Ok(open_path(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// A place in a volume, step by step and through no link.
fn inside(root: OwnedFd, opened: &Opened) -> io::Result<OwnedFd> {
    let mut at = root;
    for name in &opened.inside {
        at = match step(&at, Path::new(name)) {
            Err(Errno::ENOENT) if opened.create => {
                match mkdirat(&at, Path::new(name), Mode::from_bits_truncate(0o755)) {
                    Ok(()) | Err(Errno::EEXIST) => step(&at, Path::new(name))?,
                    Err(error) => return Err(error.into()),
                }
            }
            other => other?,
        };
        if fstat(&at)?.st_mode & libc::S_IFMT == libc::S_IFLNK {
            let inside = opened.inside.display();
            return Err(io::Error::other(format!(
                "subPath {inside} leads through a link, which is refused here"
            )));
        }
    }
    Ok(at)
}

fn step(at: impl AsFd, name: &Path) -> nix::Result<OwnedFd> {
    openat(at, name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
}
