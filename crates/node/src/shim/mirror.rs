//! Paths that do not exist: made for the container without being made on the machine.
//!
//! A directory that lacks an entry is covered, for the container only, by one in memory that has the entry, and whose
//! other entries are the originals. The root cannot be covered; a new one is made of the originals and moved to.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, chroot, pivot_root};

use super::person::Person;

const NOTHING: Option<&str> = None;

/// The file tree of a container in the making.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Directories in memory, where entries may be made freely.
    own: HashSet<PathBuf>,
    /// What is mounted already, and whether read-only.
    mounts: Vec<(PathBuf, bool)>,
    covered: usize,
    /// Whose the volumes are, if they are not the machine's to write to.
    person: Option<Person>,
}

/// Makes a file or directory, with all that is mounted below it, appear at another place too.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount(Some(source), target, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?)
}

impl Tree {
    pub(super) fn new(person: Option<Person>) -> Self {
        Self { person, ..Self::default() }
    }

    /// Notes a mount: below it entries may be made in what is mounted, as every container runtime does.
    pub(super) fn mounted(&mut self, target: PathBuf, read_only: bool) {
        self.mounts.push((target, read_only));
    }

    /// Moves to a root in memory that has all entries of the present one.
    pub(super) fn renew_root(&mut self, stage: &Path) -> io::Result<()> {
        let root = stage.join("root");
        fs::create_dir(&root)?;
        mount(Some("tmpfs"), &root, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
        // Otherwise the copy of the directory it lies in would contain it once more.
        mount(NOTHING, &root, NOTHING, MsFlags::MS_UNBINDABLE, NOTHING)?;
        copy_entries(Path::new("/"), &root, None)?;
        chdir(&root)?;
        match pivot_root(".", ".") {
            Ok(()) => umount2(".", MntFlags::MNT_DETACH)?,
            // A machine that runs from its first memory disk cannot move its root.
            Err(_) => chroot(".")?,
        }
        chdir("/")?;
        self.own.insert(PathBuf::from("/"));
        Ok(())
    }

    /// Makes sure that the path exists, and gives its real name. To be called in the stage.
    pub(super) fn make_room(&mut self, target: &Path, is_dir: bool) -> io::Result<PathBuf> {
        if let Ok(real) = fs::canonicalize(target) {
            return Ok(real);
        }
        let (mut at, missing) = deepest(target)?;
        let first = missing.first().ok_or(io::ErrorKind::NotFound)?;
        if !self.may_write(&at) {
            self.cover(&at, first)?;
        }
        // In what others can change, with no more rights than they have.
        let person = self.person.clone().filter(|_| !self.own.contains(&at));
        for (n, name) in missing.iter().enumerate() {
            at.push(name);
            let is_dir = n + 1 < missing.len() || is_dir;
            let make = || if is_dir { fs::create_dir(&at) } else { File::create_new(&at).map(drop) };
            match &person {
                Some(person) => person.act(make)?,
                None => make()?,
            }
            if is_dir && person.is_none() {
                // Another mount may need a place in it.
                self.own.insert(at.clone());
            }
        }
        Ok(at)
    }

    fn may_write(&self, dir: &Path) -> bool {
        let mount = self.mounts.iter().rev().find(|(target, _)| dir.starts_with(target));
        self.own.contains(dir) || mount.is_some_and(|(_, read_only)| !read_only)
    }

    fn cover(&mut self, dir: &Path, without: &OsStr) -> io::Result<()> {
        if ["/proc", "/sys"].iter().any(|kernel| dir.starts_with(kernel)) {
            return Err(io::Error::other("nothing can be added below /proc and /sys"));
        }
        let original = PathBuf::from(format!("covered-{}", self.covered));
        self.covered += 1;
        fs::create_dir(&original)?;
        bind(dir, &original)?;
        let kind = fs::metadata(&original)?;
        let mode = format!("mode={:o}", kind.mode() & 0o7777);
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(mode.as_str()))?;
        let _owner_may_not_exist_in_this_namespace = chown(dir, Some(kind.uid()), Some(kind.gid()));
        self.own.insert(dir.to_owned());
        copy_entries(&original, dir, Some(without))
    }
}

/// The deepest directory of the path that exists, by its real name, and what is missing below it.
fn deepest(target: &Path) -> io::Result<(PathBuf, Vec<&OsStr>)> {
    let mut missing = Vec::new();
    let mut at = target;
    while let (Some(above), Some(name)) = (at.parent(), at.file_name()) {
        missing.insert(0, name);
        if let Ok(real) = fs::canonicalize(above) {
            return Ok((real, missing));
        }
        at = above;
    }
    Err(io::ErrorKind::NotFound.into())
}

fn copy_entries(from: &Path, to: &Path, without: Option<&OsStr>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if Some(name.as_os_str()) == without {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
            continue;
        }
        if kind.is_dir() {
            DirBuilder::new().mode(0o755).create(&target)?;
        } else {
            File::create(&target)?;
        }
        if let Err(error) = bind(&source, &target) {
            // An entry that vanished, or that this user may not even look at, is one the container cannot use either.
            let harmless = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
            if !harmless {
                return Err(error);
            }
        }
    }
    Ok(())
}
