//! The pipes between the wire and a process: of a fixed size, so that whoever is slow slows down the other side.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::resize::Sizes;
use super::{Size, Streams, Wanted};

/// What each pipe holds.
const PIPE: usize = 64 * 1024;
/// The largest piece of output that is sent at once.
pub(crate) const PIECE: usize = 32 * 1024;

/// The wire's ends of the pipes of one process.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Option<DuplexStream>,
    pub(crate) stderr: Option<DuplexStream>,
    pub(crate) resizes: Resizes,
}

/// Where a client's input goes.
#[derive(Debug)]
pub(crate) struct Stdin(Option<DuplexStream>);

/// Where the sizes of a client's terminal go.
#[derive(Debug)]
pub(crate) struct Resizes {
    sizes: Sizes,
    to: mpsc::Sender<Size>,
}

/// Both ends of what a client asked for.
pub(crate) fn pipes(wanted: Wanted) -> (Streams, Ends) {
    let pipe = |wanted: bool| wanted.then(|| duplex(PIPE)).unzip();
    let ((stdin, input), (stdout, output), (stderr, errors)) =
        (pipe(wanted.stdin), pipe(wanted.stdout), pipe(wanted.stderr));
    let (to, sizes) = mpsc::channel(1);
    let streams = Streams {
        stdin: input.map(|end| Box::new(end) as _),
        stdout: output.map(|end| Box::new(end) as _),
        stderr: errors.map(|end| Box::new(end) as _),
        tty: wanted.tty,
        sizes,
    };
    let resizes = Resizes { sizes: Sizes::default(), to };
    (streams, Ends { stdin: Stdin(stdin), stdout, stderr, resizes })
}

impl Stdin {
    /// Hands on input, waiting for room. Input for a process that reads no more is nobody's.
    pub(crate) async fn put(&mut self, bytes: &[u8]) {
        if let Some(pipe) = &mut self.0
            && pipe.write_all(bytes).await.is_err()
        {
            self.0 = None;
        }
    }

    /// The process reads to the end of what it got.
    pub(crate) fn close(&mut self) {
        self.0 = None;
    }
}

impl Resizes {
    /// Hands on the newest size, waiting until the one before was seen.
    pub(crate) async fn put(&mut self, bytes: &[u8]) {
        if let Some(size) = self.sizes.feed(bytes) {
            let _process_is_over = self.to.send(size).await;
        }
    }
}

/// The next piece of output behind a prefix; nothing at its end. Safe to be dropped while it waits.
pub(crate) async fn piece(pipe: &mut Option<DuplexStream>, prefix: &[u8]) -> Option<bytes::BytesMut> {
    let Some(open) = pipe else { return std::future::pending().await };
    let mut piece = bytes::BytesMut::with_capacity(PIECE + prefix.len());
    piece.extend_from_slice(prefix);
    match open.read_buf(&mut piece).await {
        Ok(count) if count > 0 => Some(piece),
        _ => {
            *pipe = None;
            None
        }
    }
}
