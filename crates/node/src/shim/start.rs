//! Starting the container's program, and hearing whether that worked.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;
use nix::unistd::Pid;

use crate::runtime::files::{CLAIM, Claim, boot_id};

/// A program on its way to run.
#[derive(Debug)]
pub(super) struct Started {
    /// The process, and its group: first the helper that prepares everything, then the program itself.
    pub(super) pid: Pid,
    /// What the program writes.
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
    /// Says why the program could not be started; ends without a word when it was.
    pub(super) verdict: PipeReader,
}

/// Starts the helper that becomes the program. Its standard input is the pipe on which it reports: the one way to hand
/// it a descriptor that it can close when the program starts.
pub(super) fn start(dir: &Path) -> io::Result<Started> {
    let (stdout, out) = io::pipe()?;
    let (stderr, err) = io::pipe()?;
    let (verdict, report) = io::pipe()?;
    for end in [&stdout, &stderr, &verdict] {
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let _only_for_cleaning_up = note(dir, [fstat(&stdout)?.st_ino, fstat(&stderr)?.st_ino]);
    let child = Command::new("/proc/self/exe")
        .arg0("trainyard")
        .arg("shim-init")
        .arg(dir)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(report)))
        .stdout(Stdio::from(OwnedFd::from(out)))
        .stderr(Stdio::from(OwnedFd::from(err)))
        .process_group(0)
        .spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(Started { pid: Pid::from_raw(pid), stdout, stderr, verdict })
}

fn note(dir: &Path, pipes: [u64; 2]) -> io::Result<()> {
    let claim = Claim { shim: std::process::id(), boot: boot_id(), pipes: pipes.to_vec() };
    let mut file = OpenOptions::new().write(true).mode(0o600).open(dir.join(CLAIM))?;
    file.write_all(&serde_json::to_vec(&claim)?)
}
