//! Starting the container's program, and hearing whether that worked.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;
use nix::unistd::Pid;

use super::input::Input;
use crate::proc::Process;
use crate::runtime::files::{CLAIM, Claim, boot_id};
use crate::runtime::state::checksum;
use crate::runtime::{ContainerSpec, pty};

/// A program on its way to run.
#[derive(Debug)]
pub(super) struct Started {
    /// The process, and its group: first the helper that prepares everything, then the program itself.
    pub(super) pid: Pid,
    /// What the program writes.
    pub(super) stdout: File,
    /// What it writes beside; a terminal has one output only.
    pub(super) stderr: Option<File>,
    /// What it reads.
    pub(super) input: Input,
    /// Says why the program could not be started; ends without a word when it was.
    pub(super) verdict: File,
}

/// Starts the helper that becomes the program. Its standard input is the pipe on which it reports: the one way to hand
/// it a descriptor that it can close when the program starts.
pub(super) fn start(dir: &Path, spec: &ContainerSpec) -> io::Result<Started> {
    let mut input = Input::open(dir, spec)?;
    let mut helper = Command::new("/proc/self/exe");
    helper.arg0("trainyard").arg("shim-init").arg(dir).env_clear();
    let (verdict, report) = pipe()?;
    helper.stdin(report);
    let (stdout, stderr) = if spec.tty {
        let (player, end) = pty::open()?;
        helper.stdout(Stdio::from(end.try_clone()?)).stderr(Stdio::from(end));
        note(dir, Vec::new());
        let player = File::from(player);
        input.plays(player.try_clone()?);
        (player, None)
    } else {
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        note(dir, vec![fstat(&stdout)?.st_ino, fstat(&stderr)?.st_ino]);
        // With a terminal the helper makes a session of its own, which no leader of a group can.
        helper.stdout(out).stderr(err).process_group(0);
        (stdout, Some(stderr))
    };
    let child = helper.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(Started { pid: Pid::from_raw(pid), stdout, stderr, input, verdict })
}

/// A pipe whose reading end does not block.
fn pipe() -> io::Result<(File, Stdio)> {
    let (reader, writer) = io::pipe()?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((File::from(OwnedFd::from(reader)), Stdio::from(OwnedFd::from(writer))))
}

/// Notes how to find the container's processes when this one is killed.
fn note(dir: &Path, pipes: Vec<u64>) {
    let (shim, boot) = (std::process::id(), boot_id());
    let since = i32::try_from(shim).ok().and_then(Process::of).map_or(0, |own| own.start);
    // A directory is run once, and no two directories have one name at a time.
    let mark = format!("{:016x}-{shim}-{since}", checksum(dir.as_os_str().as_encoded_bytes()));
    let claim = Claim { shim, boot, pipes, mark, since };
    let write = || {
        let mut file = OpenOptions::new().write(true).mode(0o600).open(dir.join(CLAIM))?;
        file.write_all(&serde_json::to_vec(&claim)?)
    };
    let _only_for_cleaning_up: io::Result<()> = write();
}
