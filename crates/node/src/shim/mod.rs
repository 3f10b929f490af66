//! The shim: one small process for each run of a container, which owns the log and the exit code.
//!
//! It knows nothing of pods. It reads what to run from its directory, runs it, and leaves there what became of it; the
//! control plane that started it may come and go meanwhile. It is a mode of the same program, and so are its helpers:
//! what happens inside the container's namespaces happens in a process of its own, which then becomes the container's
//! program. Nothing here is asynchronous and there is one thread only: it has to be small, for there are many of it.

mod claim;
mod exec;
mod init;
mod input;
mod kill;
mod log;
mod mirror;
mod mounts;
mod open;
mod outcome;
mod person;
mod program;
mod run;
mod start;
mod supervise;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

/// Runs a shim or one of its helpers: `shim DIR [LABEL]`, `shim-init DIR`, `shim-exec DIR PROGRAM [ARGUMENT…]`,
/// `shim-run DIR REPORT plain|tty PROGRAM [ARGUMENT…]`, `shim-probe`. To be called before any thread exists, since some of what it does is denied to a process with several.
pub fn main(args: &[OsString]) -> ExitCode {
    let mode = args.first().and_then(|mode| mode.to_str()).unwrap_or_default();
    let dir = args.get(1).map(Path::new);
    close_strangers();
    match (mode, dir) {
        ("shim", Some(dir)) => supervise::main(dir),
        ("shim-init", Some(dir)) => init::main(dir),
        ("shim-exec", Some(dir)) => exec::main(dir, args.get(2..).unwrap_or_default()),
        ("shim-run", Some(dir)) => run::main(dir, args.get(2..).unwrap_or_default()),
        ("shim-probe", _) => match mounts::probe() {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(1, &message),
        },
        _ => fail(2, "a shim is started by the node, never by hand"),
    }
}

/// Whether the arguments ask for a shim rather than for the program proper.
pub fn is_mode(args: &[OsString]) -> bool {
    let mode = args.first().and_then(|mode| mode.to_str()).unwrap_or_default();
    matches!(mode, "shim" | "shim-init" | "shim-exec" | "shim-run" | "shim-probe")
}

/// Closes every descriptor but the standard three. Whoever started this process may have left some open by mistake, and a
/// shim lives longer than they do: it would keep their locks and ports, and hand them to the container.
fn close_strangers() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|&fd| fd > 2) {
        let _the_one_just_read_with = nix::unistd::close(fd);
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    let _nobody_may_listen = writeln!(io::stderr(), "{message}");
    ExitCode::from(code)
}

#[expect(clippy::disallowed_methods, reason = "a shim is a process of its own: its clock is the machine's")]
fn now() -> Timestamp {
    Timestamp::now()
}
