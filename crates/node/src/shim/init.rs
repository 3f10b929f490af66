//! The helper that becomes the container's program: what has to happen in the new process itself.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getppid, setsid};
use rustix::process::ioctl_tiocsctty;

use super::{mounts, program};
use crate::lock;
use crate::open_files::limit_open_files;
use crate::runtime::ContainerSpec;
use crate::runtime::cgroup::Cgroups;
use crate::runtime::files::{LOCK, STDIN, read_marked_spec};

/// Prepares everything and becomes the program. Its standard input is the shim's ear: what is written there is why the
/// program did not start, and its end without a word is the good news.
pub(super) fn main(dir: &Path) -> ExitCode {
    let Ok(ear) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(128) };
    let message = become_program(dir);
    let _shim_is_dead_otherwise = File::from(ear).write_all(message.as_bytes());
    ExitCode::from(128)
}

fn become_program(dir: &Path) -> String {
    let spec = match read_marked_spec(dir) {
        Ok(spec) => spec,
        Err(error) => return format!("its description cannot be read: {error}"),
    };
    let lock = dir.join(LOCK);
    let groups = Cgroups::of(dir);
    let shim = lock::holder(&lock);
    if let Err(error) = SigSet::empty().thread_set_mask() {
        return format!("its signals cannot be set up: {error}");
    }
    if let Err(error) = groups.join() {
        return format!("it cannot be put into its control group: {error}");
    }
    let stdin = match input(dir, &spec) {
        Ok(stdin) => stdin,
        Err(error) => return format!("its input cannot be set up: {error}"),
    };
    if let Err(message) = mounts::enter(dir, &spec).and_then(|()| program::settle(&spec)) {
        return message;
    }
    if let Some(soft) = spec.open_files {
        limit_open_files(soft);
    }
    // The program must not outlive its shim. This comes last because a change of user would undo it, and a shim that
    // died before is no longer the parent.
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        return format!("it cannot be tied to its shim: {error}");
    }
    if shim != u32::try_from(getppid().as_raw()).ok() {
        return "its shim is gone".to_owned();
    }
    program::exec(&spec, &spec.command, stdin).people
}

/// What the program reads: its terminal, what others write for it, or nothing. Opened before anything else changes.
fn input(dir: &Path, spec: &ContainerSpec) -> io::Result<Stdio> {
    if spec.tty {
        setsid()?;
        let terminal = io::stdout().as_fd().try_clone_to_owned()?;
        ioctl_tiocsctty(&terminal)?;
        return Ok(Stdio::from(terminal));
    }
    match spec.stdin {
        true => File::open(dir.join(STDIN)).map(Stdio::from),
        false => Ok(Stdio::null()),
    }
}
