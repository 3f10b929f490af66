//! The certainty that a node does not outlive us: a small shell that removes it when our end of a pipe is closed, which the
//! system does for a process that was killed, too. It also holds the machine's lock on nodes, so that nobody starts one
//! while another is still being removed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{BRIDGE, NAME, Places};
use crate::Error;

const SCRIPT: &str = include_str!("guard.sh");

/// Held while there is a node. Dropping it removes the node.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Waits for the node of somebody else to be gone, and removes what one may have left.
    pub(super) fn new(places: &Places) -> Result<Self, Error> {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(Path::new("/run").join(format!("{NAME}.lock")))
            .args([&places.root, &places.state])
            .args([BRIDGE, NAME])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal is for us.
            .process_group(0)
            .spawn()
            .map_err(Error::at("sh"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let guard = Self(child);
        if line == "ours\n" {
            Ok(guard)
        } else {
            Err(Error::NoNode { why: "its lock cannot be held".into() })
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _status = self.0.wait();
    }
}
