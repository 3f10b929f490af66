//! What a container's program reads: a named pipe that others write to, so that the shim need not know them.
//!
//! A program without a terminal reads the pipe itself. The shim only keeps it open, so that the input does not end with
//! whoever wrote last, until it is asked to let go. With a terminal the shim types what comes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::runtime::files::{STDIN, STDIN_OVER, WINDOW};
use crate::runtime::{ContainerSpec, WindowSize, pty};

/// What is typed at once.
const CHUNK: usize = 4096;

/// The input of one run.
#[derive(Debug, Default)]
pub(super) struct Input {
    pipe: Option<File>,
    /// The shim's end of the terminal.
    player: Option<File>,
    /// Read, and not typed yet.
    pending: Vec<u8>,
    size: Option<WindowSize>,
}

impl Input {
    /// Makes the pipe if there is to be one.
    pub(super) fn open(dir: &Path, spec: &ContainerSpec) -> io::Result<Self> {
        if !spec.stdin {
            return Ok(Self::default());
        }
        let path = dir.join(STDIN);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Opened for both: then neither this nor any other opening waits.
        let flags = OFlag::O_NONBLOCK.bits();
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { pipe: Some(pipe), ..Self::default() })
    }

    /// There is a terminal.
    pub(super) fn plays(&mut self, player: File) {
        self.player = Some(player);
    }

    /// What has to happen before there is something to do.
    pub(super) fn waits_for(&self) -> Option<PollFd<'_>> {
        let player = self.player.as_ref()?;
        if self.pending.is_empty() {
            return Some(PollFd::new(self.pipe.as_ref()?.as_fd(), PollFlags::POLLIN));
        }
        Some(PollFd::new(player.as_fd(), PollFlags::POLLOUT))
    }

    /// Types what has come.
    pub(super) fn pass_on(&mut self) {
        let Self { pipe: Some(pipe), player: Some(player), pending, .. } = self else { return };
        loop {
            if pending.is_empty() {
                pending.resize(CHUNK, 0);
                let count = pipe.read(pending).unwrap_or(0);
                pending.truncate(count);
                if count == 0 {
                    return;
                }
            }
            match player.write(pending) {
                Ok(count) => drop(pending.drain(..count.min(pending.len()))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody reads any more.
                Err(_) => pending.clear(),
            }
        }
    }

    /// Does what was asked for: ends the input, resizes the terminal.
    pub(super) fn obey(&mut self, dir: &Path) {
        let Some(player) = &self.player else {
            if self.pipe.is_some() && dir.join(STDIN_OVER).exists() {
                self.pipe = None;
            }
            return;
        };
        let size = fs::read_to_string(dir.join(WINDOW)).ok().and_then(|text| parse(&text));
        if size.is_some() && size != self.size {
            self.size = size;
            let _only_looks_odd = size.map(|size| pty::resize(player, size));
        }
    }
}

fn parse(text: &str) -> Option<WindowSize> {
    let (columns, rows) = text.trim().split_once(' ')?;
    Some(WindowSize { columns: columns.parse().ok()?, rows: rows.parse().ok()? })
}
