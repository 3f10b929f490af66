//! Joining the program of a running container.
//!
//! Its output is in the log, which is read from its end on: whoever is slow reads later, and the program knows nothing of
//! it. Its input is a named pipe.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::files::{STDIN, STDIN_OVER, WINDOW, read_spec, write_whole};
use super::logs::{LogSource, from_now_on};
use super::peer::Peer;
use super::{Instance, Runtime, RuntimeError, Streams, WindowSize};
use crate::files::blocking;

/// What is written at once.
const CHUNK: usize = 32 * 1024;

impl Runtime {
    /// Passes on what the container's program writes from now on, and what it is to read if it can, until it ends.
    ///
    /// # Errors
    /// When the container does not run, or its files cannot be read.
    pub async fn attach(&self, dir: &Path, streams: Streams) -> Result<(), RuntimeError> {
        if !matches!(self.glance(dir).await?, Instance::Running { .. }) {
            return Err(RuntimeError::NotRunning);
        }
        let at = dir.to_owned();
        let spec = match blocking(move || read_spec(&at)).await {
            // It has ended since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RuntimeError::NotRunning),
            spec => spec.map_err(RuntimeError::file(dir))?,
        };
        let Streams { stdin, stdout, stderr, mut sizes, .. } = streams;
        let stderr = stderr.filter(|_| !spec.tty);
        // Both are found before anything is typed: an answer cannot come before them.
        let log = |source| from_now_on(dir.to_owned(), source);
        let out = log(LogSource::Stdout).await.map_err(RuntimeError::file(dir))?;
        let err = log(LogSource::Stderr).await.map_err(RuntimeError::file(dir))?;
        let listening = async {
            let heard = futures::try_join!(pass_on(out, stdout), pass_on(err, stderr));
            heard.map_err(RuntimeError::file(dir))?;
            self.ended(dir).await
        };
        let typing = async {
            if let Some(from) = stdin.filter(|_| spec.stdin) {
                // Dropped at its end, or with everything else when the client goes.
                let _last_word = (spec.stdin_once && !spec.tty).then(|| LastWord(dir.to_owned()));
                let _nobody_reads = type_in(dir, from).await;
            }
            std::future::pending::<()>().await;
        };
        let resizing = async {
            while let Some(size) = sizes.recv().await {
                let at = dir.to_owned();
                let _only_looks_odd = blocking(move || ask_for(&at, size)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            over = listening => over.map(drop),
            () = typing => Ok(()),
            () = resizing => Ok(()),
        }
    }
}

/// Ends the input of a container for good: its first writer is gone.
struct LastWord(PathBuf);

impl Drop for LastWord {
    fn drop(&mut self) {
        if write_whole(&self.0, STDIN_OVER, b"").is_ok()
            && let Some(peer) = Peer::find(&self.0)
        {
            peer.nudge();
        }
    }
}

/// Asks for a size of the terminal.
fn ask_for(dir: &Path, WindowSize { columns, rows }: WindowSize) -> io::Result<()> {
    write_whole(dir, WINDOW, format!("{columns} {rows}\n").as_bytes())?;
    if let Some(peer) = Peer::find(dir) {
        peer.nudge();
    }
    Ok(())
}

async fn type_in(dir: &Path, mut from: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut to = pipe::OpenOptions::new().open_sender(dir.join(STDIN))?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk).await? {
            0 => return Ok(()),
            count => to.write_all(chunk.get(..count).unwrap_or_default()).await?,
        }
    }
}

async fn pass_on(
    log: impl Stream<Item = io::Result<Bytes>>,
    to: Option<impl AsyncWrite + Unpin>,
) -> io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    let mut log = std::pin::pin!(log);
    while let Some(text) = log.next().await {
        if to.write_all(&text?).await.is_err() {
            // Whoever listened is gone, and the rest will be dropped.
            return Ok(());
        }
    }
    Ok(())
}
