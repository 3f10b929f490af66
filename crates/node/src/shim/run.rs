//! The helper that becomes a command somebody talks to: a session of its own, with a terminal or without.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::setsid;
use rustix::process::ioctl_tiocsctty;

use super::exec::{CANNOT, become_command};
use super::fail;

/// Becomes the command; why that failed goes into the report, since the standard streams are the command's alone.
pub(super) fn main(dir: &Path, args: &[OsString]) -> ExitCode {
    let [report, kind, command @ ..] = args else { return fail(2, "a command is started by the node") };
    let Ok(mut report) = OpenOptions::new().write(true).open(report) else {
        return fail(CANNOT, "there is nowhere to report to");
    };
    let command: Vec<String> = command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let terminal = kind == "tty";
    let message = match own_session(terminal) {
        Ok(()) => become_command(dir, &command, terminal).runtime,
        Err(error) => format!("it cannot get a session of its own: {error}"),
    };
    let _nobody_waits_for_it = report.write_all(message.as_bytes());
    ExitCode::from(CANNOT)
}

/// Whoever ends the command finds by the session what it started.
fn own_session(terminal: bool) -> io::Result<()> {
    setsid()?;
    if terminal {
        ioctl_tiocsctty(io::stdin().as_fd())?;
    }
    Ok(())
}
