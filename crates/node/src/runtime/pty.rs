//! A terminal that is a program: two ends, one for the command and one for whoever plays the screen and the keyboard.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::WindowSize;

/// Both ends: the player's, which does not block, and the command's.
pub(crate) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let player = openpt(flags)?;
    grantpt(&player)?;
    unlockpt(&player)?;
    let command = ioctl_tiocgptpeer(&player, flags)?;
    fcntl(&player, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((player, command))
}

/// Tells the command how large its window is; the kernel sends it a signal if that is news.
pub(crate) fn resize(end: impl AsFd, size: WindowSize) -> io::Result<()> {
    let window = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(end, window)?)
}

/// The player's end for those who wait asynchronously.
#[derive(Debug)]
pub(super) struct Player(AsyncFd<OwnedFd>);

impl Player {
    #[expect(
        deprecated,
        reason = "sound for an owned descriptor, and its successor cannot be called without `unsafe`"
    )]
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        AsyncFd::with_interest(end, Interest::READABLE | Interest::WRITABLE).map(Self)
    }

    /// What the command wrote; nothing when nobody has the other end any more.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.async_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)).await;
        match read {
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => Ok(0),
            other => other,
        }
    }

    /// Types.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.0.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)).await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    pub(super) fn resize(&self, size: WindowSize) -> io::Result<()> {
        resize(self.0.get_ref(), size)
    }
}
