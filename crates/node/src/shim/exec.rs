//! The helper that becomes a command inside a running container.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::SigSet;
use nix::unistd::{chroot, fchdir};

use super::program::NotStarted;
use super::{fail, program};
use crate::runtime::cgroup::Cgroups;
use crate::runtime::files::read_marked_spec;
use crate::runtime::state::State;

/// As shells do when they cannot run a command.
pub(super) const CANNOT: u8 = 126;

/// Becomes the command, in the place of the container's program: its groups, namespaces, root, user, directory and
/// environment.
pub(super) fn main(dir: &Path, command: &[OsString]) -> ExitCode {
    let command: Vec<String> = command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    fail(CANNOT, &become_command(dir, &command, false).people)
}

/// Returns only if that failed, with the reason. Its standard streams are the command's.
pub(super) fn become_command(dir: &Path, command: &[String], terminal: bool) -> NotStarted {
    let mut spec = match read_marked_spec(dir) {
        Ok(spec) => spec,
        // It goes with the end of the run.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return "the container does not run".to_owned().into();
        }
        Err(error) => return format!("the container's description cannot be read: {error}").into(),
    };
    if terminal {
        spec.env.entry("TERM".into()).or_insert_with(|| "xterm".into());
    }
    let Ok(Some(State::Running { pid, .. })) = State::read(dir) else {
        return "the container does not run".to_owned().into();
    };
    let _empty = SigSet::empty().thread_set_mask();
    if let Err(error) = Cgroups::of(dir).join() {
        return format!("the container's control group cannot be entered: {error}").into();
    }
    match enter(pid).and_then(|()| program::settle(&spec)) {
        Ok(()) => program::exec(&spec, command, Stdio::inherit()),
        Err(message) => message.into(),
    }
}

/// Goes where the process is. All is opened first: afterwards there may be no `/proc` with these numbers.
fn enter(pid: i32) -> Result<(), String> {
    let place = |what: &str| format!("/proc/{pid}/{what}");
    if same(&place("ns/mnt"), "/proc/self/ns/mnt") {
        return Ok(());
    }
    let open =
        |what: &str| File::open(place(what)).map_err(|error| format!("the container is gone: {error}"));
    let user = (!same(&place("ns/user"), "/proc/self/ns/user")).then(|| open("ns/user")).transpose()?;
    let (mounts, root) = (open("ns/mnt")?, open("root")?);
    let entered = user.map_or(Ok(()), |user| setns(user, CloneFlags::CLONE_NEWUSER));
    entered
        .and_then(|()| setns(mounts, CloneFlags::CLONE_NEWNS))
        .and_then(|()| fchdir(root))
        .and_then(|()| chroot("."))
        .map_err(|error| format!("the container's file system cannot be entered: {}", program::text(error)))
}

fn same(one: &str, other: &str) -> bool {
    matches!((fs::read_link(one), fs::read_link(other)), (Ok(one), Ok(other)) if one == other)
}
