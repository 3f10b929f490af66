//! What a container sees at which path, made so that nothing of it can be seen outside, nor stays behind.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, getegid, geteuid};

use super::mirror::{Tree, bind};
use super::open::open;
use super::person::Person;
use super::program::text;
use crate::runtime::files::{MESSAGE, STAGE};
use crate::runtime::{ContainerSpec, Mount};
use crate::users::RUN;

const NOTHING: Option<&str> = None;

/// Makes the mounts in a namespace of their own, if there is one to make: a path that is mounted onto itself, and may be
/// written to, needs none.
pub(super) fn enter(dir: &Path, spec: &ContainerSpec) -> Result<(), String> {
    let needed = |mount: &&Mount| mount.source != mount.target || mount.read_only;
    let Some(first) = spec.mounts.iter().find(needed) else { return Ok(()) };
    let message = dir.join(MESSAGE);
    let others = spec.mounts.iter().filter(needed).any(|mount| mount.source != message);
    // A container that asked for no volume keeps the machine's file system, later mounts included.
    let (mounts, later) = if others {
        (spec.mounts.as_slice(), MsFlags::MS_PRIVATE)
    } else {
        (std::slice::from_ref(first), MsFlags::MS_SLAVE)
    };
    make_anchor(mounts);
    isolate(later)?;
    let stage = dir.join(STAGE);
    prepare(&stage).map_err(|error| format!("`{}` cannot be used for mounts: {error}", stage.display()))?;
    // The sources first: a mount may hide the source of another.
    let person = Person::of(spec);
    for (n, one) in mounts.iter().enumerate() {
        set_aside(one, &stage.join(n.to_string()), person.as_ref())?;
    }
    let mut order: Vec<(usize, &Mount)> = mounts.iter().enumerate().collect();
    order.sort_by_key(|(_, mount)| mount.target.components().count());
    let mut tree = Tree::new(person);
    if order.iter().any(|(_, mount)| lacks_top(&mount.target)) {
        tree.renew_root(&stage).map_err(|error| format!("the container's root cannot be made: {error}"))?;
    }
    // From here on the stage is where this process is: a mount over a directory above it hides its name.
    chdir(&stage).map_err(|error| format!("mounts cannot be prepared: {}", text(error)))?;
    for (n, one) in order {
        place(&mut tree, one, Path::new(&n.to_string()))?;
    }
    umount2(".", MntFlags::MNT_DETACH).map_err(|error| format!("mounts cannot be tidied up: {}", text(error)))
}

/// The place for the node's own mounts is made on the machine itself. A container that had it alone would need a copy of
/// `/run`, and would not see what others make there later.
fn make_anchor(mounts: &[Mount]) {
    for Mount { source, target, .. } in mounts.iter().filter(|mount| mount.target.starts_with(RUN)) {
        let is_dir = source.is_dir();
        let directory = if is_dir { Some(target.as_path()) } else { target.parent() };
        let _made_for_the_container_alone_then = directory.map(fs::create_dir_all);
        if !is_dir {
            let _is_there_already = File::create_new(target);
        }
    }
}

/// Whether mounts can be made here at all; leaves nothing, since the process that asks ends.
pub(super) fn probe() -> Result<(), String> {
    isolate(MsFlags::MS_PRIVATE)?;
    mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::empty(), NOTHING)
        .map_err(|error| format!("this machine permits no mounts: {}", text(error)))
}

/// A mount namespace: root just takes one, others need a user namespace around it, in which they stay who they are. `later`
/// says what becomes of mounts that are made outside afterwards; none inside is seen outside.
fn isolate(later: MsFlags) -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    let refused = |error: Errno| {
        let hint = "run as root, or permit user namespaces";
        format!("this machine permits no mount namespace: {}; {hint}", text(error))
    };
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(refused)?;
        let map = |file: &str, line: String| {
            let told = fs::write(format!("/proc/self/{file}"), line);
            told.map_err(|error| format!("this machine permits no user namespace: {file}: {error}"))
        };
        map("setgroups", "deny".to_owned())?;
        map("uid_map", format!("{user} {user} 1"))?;
        map("gid_map", format!("{group} {group} 1"))?;
    }
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | later, NOTHING).map_err(refused)
}

fn prepare(stage: &Path) -> io::Result<()> {
    fs::create_dir_all(stage)?;
    mount(Some("tmpfs"), stage, Some("tmpfs"), MsFlags::empty(), Some("mode=0700"))?;
    Ok(())
}

fn set_aside(one: &Mount, place: &Path, person: Option<&Person>) -> Result<(), String> {
    let (source, target) = (one.source.display(), one.target.display());
    let plain = one.target.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !one.target.is_absolute() || !plain {
        return Err(format!("`{target}` is no place to mount at: the path must be absolute, without `..`"));
    }
    let cannot = |error: &dyn Display| format!("`{source}` cannot be mounted at `{target}`: {error}");
    let found = open(one, person).map_err(|why| cannot(&why))?;
    let path = found.path();
    let made = fs::metadata(&path)
        .and_then(|kind| if kind.is_dir() { fs::create_dir(place) } else { File::create(place).map(drop) });
    made.and_then(|()| bind(&path, place)).map_err(|error| cannot(&error))
}

fn lacks_top(target: &Path) -> bool {
    let top: PathBuf = target.components().take(2).collect();
    fs::metadata(top).is_err()
}

fn place(tree: &mut Tree, one: &Mount, aside: &Path) -> Result<(), String> {
    let trouble = |error: io::Error| {
        let (source, target) = (one.source.display(), one.target.display());
        format!("`{source}` cannot be mounted at `{target}`: {error}")
    };
    let is_dir = fs::metadata(aside).map_err(trouble)?.is_dir();
    let real = tree.make_room(&one.target, is_dir).map_err(trouble)?;
    if fs::metadata(&real).map_err(trouble)?.is_dir() != is_dir {
        let kinds = if is_dir { "a directory onto a file" } else { "a file onto a directory" };
        return Err(trouble(io::Error::other(format!("that would be {kinds}"))));
    }
    bind(aside, &real).map_err(trouble)?;
    if one.read_only {
        protect(&real).map_err(trouble)?;
    }
    tree.mounted(real, one.read_only);
    Ok(())
}

/// Makes a mount read-only. Its other flags have to stay: a user namespace may not loosen them.
fn protect(target: &Path) -> io::Result<()> {
    let flags = statvfs(target)?.flags();
    let mut keep = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    for (there, wanted) in pairs {
        keep.set(wanted, keep.contains(wanted) || flags.contains(there));
    }
    Ok(mount(NOTHING, target, NOTHING, keep, NOTHING)?)
}
