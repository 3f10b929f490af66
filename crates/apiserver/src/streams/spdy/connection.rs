//! The server's side of a SPDY connection.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Decoder, Frame};
use super::headers::{self, Headers, Unpacker};
use crate::streams::upgrade::Idle;
use crate::streams::{LINGER, PING};

/// Streams of a connection at once: a forwarded port has two for each of its connections.
const STREAMS: usize = 2048;
/// Pieces of data that wait in a stream. When they are not taken, the connection waits.
const WAITING: usize = 8;
/// Frames that wait to be sent.
const OUTGOING: usize = 16;
/// What is read at once, and written at once.
const BUFFER: usize = 64 * 1024;

/// A stream that a client opened.
#[derive(Debug)]
pub(crate) struct SpdyStream {
    pub(crate) id: u32,
    pub(crate) headers: Headers,
    incoming: mpsc::Receiver<Bytes>,
    /// The client ended it in the middle.
    pub(crate) reset: CancellationToken,
    sender: SpdySender,
    _place: OwnedSemaphorePermit,
}

/// The direction of a stream that leads to the client.
#[derive(Clone, Debug)]
pub(crate) struct SpdySender {
    id: u32,
    outgoing: mpsc::Sender<Out>,
}

/// The connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

#[derive(Debug)]
enum Out {
    Data { id: u32, fin: bool, data: Bytes },
    Reply { id: u32 },
    Reset { id: u32, why: u32 },
    Ping { id: u32 },
    GoAway,
}

impl SpdyStream {
    /// The next data; nothing at the client's last word, or when it is gone.
    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        self.incoming.recv().await
    }

    /// The direction to the client.
    pub(crate) fn sender(&self) -> SpdySender {
        self.sender.clone()
    }
}

impl SpdySender {
    pub(crate) async fn send(&self, data: Bytes) -> Result<(), Gone> {
        self.out(Out::Data { id: self.id, fin: false, data }).await
    }

    /// Says the last word on this stream.
    pub(crate) async fn finish(&self, data: Bytes) -> Result<(), Gone> {
        self.out(Out::Data { id: self.id, fin: true, data }).await
    }

    /// Ends the stream in both directions.
    pub(crate) async fn cancel(&self) -> Result<(), Gone> {
        self.out(Out::Reset { id: self.id, why: frame::CANCEL }).await
    }

    async fn out(&self, out: Out) -> Result<(), Gone> {
        self.outgoing.send(out).await.map_err(|_| Gone)
    }
}

/// Serves a connection: streams that `admit` lets in are handed to `work`. Ends when `work` does, after everything that
/// was sent has left; or at once when the client goes, which drops `work`.
pub(crate) async fn serve<S, W>(
    socket: S,
    admit: fn(&Headers) -> bool,
    work: impl FnOnce(mpsc::Receiver<SpdyStream>) -> W,
) where
    S: AsyncRead + AsyncWrite + Send,
    W: Future<Output = ()>,
{
    let (from, to) = split(socket);
    let (opened, streams) = mpsc::channel(1);
    let (outgoing, frames) = mpsc::channel(OUTGOING);
    let idle = Idle::new();
    let mut reader = Reader {
        from,
        buffer: BytesMut::with_capacity(BUFFER),
        unpacker: Unpacker::default(),
        streams: HashMap::new(),
        newest: 0,
        places: Arc::new(Semaphore::new(STREAMS)),
        opened,
        outgoing: outgoing.clone(),
        admit,
    };
    let mut reading = pin!(reader.run(&idle));
    let mut writing = pin!(write_frames(to, frames, &idle));
    let done = {
        let work = pin!(work(streams));
        tokio::select! {
            () = &mut reading => false,
            () = &mut writing => false,
            () = idle.expired() => false,
            () = work => true,
        }
    };
    if done {
        let leaving = async {
            let _writer_is_gone = outgoing.send(Out::GoAway).await;
            futures::join!(reading, writing)
        };
        let _patience_is_over = timeout(LINGER, leaving).await;
    }
}

struct Reader<S> {
    from: ReadHalf<S>,
    buffer: BytesMut,
    unpacker: Unpacker,
    streams: HashMap<u32, Open>,
    /// The last stream that was opened.
    newest: u32,
    places: Arc<Semaphore>,
    opened: mpsc::Sender<SpdyStream>,
    outgoing: mpsc::Sender<Out>,
    admit: fn(&Headers) -> bool,
}

/// A stream on which the client has more to say.
struct Open {
    incoming: mpsc::Sender<Bytes>,
    reset: CancellationToken,
}

impl<S: AsyncRead> Reader<S> {
    /// Reads until the client has gone, or cannot be understood.
    async fn run(&mut self, idle: &Idle) {
        let mut decoder = Decoder::default();
        loop {
            match decoder.decode(&mut self.buffer) {
                Ok(Some(frame)) => {
                    idle.touch();
                    if !self.take(frame).await {
                        return;
                    }
                }
                Ok(None) => {
                    self.buffer.reserve(BUFFER);
                    match self.from.read_buf(&mut self.buffer).await {
                        Ok(count) if count > 0 => {}
                        _ => return,
                    }
                }
                Err(error) => return tracing::debug!(%error, "a SPDY client cannot be understood"),
            }
        }
    }

    /// Acts on a frame; false when the connection cannot go on.
    async fn take(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::SynStream { id, fin, block } => {
                let Ok(headers) = self.unpacker.unpack(&block) else { return false };
                self.open(id, fin, headers).await;
            }
            Frame::Headers { id, fin, block } => {
                if self.unpacker.unpack(&block).is_err() {
                    return false;
                }
                if fin {
                    self.streams.remove(&id);
                }
            }
            Frame::Data { id, fin, data } => {
                if let Some(open) = self.streams.get(&id).filter(|_| !data.is_empty()) {
                    let _nobody_reads_it = open.incoming.send(data).await;
                }
                if fin {
                    self.streams.remove(&id);
                }
            }
            Frame::Reset { id } => {
                if let Some(open) = self.streams.remove(&id) {
                    open.reset.cancel();
                }
            }
            // Ours are even: those that come back are answers.
            Frame::Ping { id } if id % 2 == 1 => self.out(Out::Ping { id }).await,
            Frame::Ping { .. } | Frame::Other => {}
            Frame::GoAway => return false,
        }
        true
    }

    async fn open(&mut self, id: u32, fin: bool, headers: Headers) {
        // Numbers grow, and a client's are odd.
        if id <= self.newest || id.is_multiple_of(2) {
            return self.out(Out::Reset { id, why: frame::PROTOCOL_ERROR }).await;
        }
        self.newest = id;
        let refused = Out::Reset { id, why: frame::REFUSED_STREAM };
        if !(self.admit)(&headers) {
            return self.out(refused).await;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return self.out(refused).await;
        };
        let (incoming, received) = mpsc::channel(WAITING);
        let open = Open { incoming, reset: CancellationToken::new() };
        let sender = SpdySender { id, outgoing: self.outgoing.clone() };
        let reset = open.reset.clone();
        let stream = SpdyStream { id, headers, incoming: received, reset, sender, _place: place };
        self.streams.retain(|_, open| !open.incoming.is_closed());
        if !fin {
            self.streams.insert(id, open);
        }
        self.out(Out::Reply { id }).await;
        let _nobody_wants_it = self.opened.send(stream).await;
    }

    async fn out(&mut self, out: Out) {
        let _gone_and_soon_noticed = self.outgoing.send(out).await;
    }
}

/// Writes what is to be sent until the client is gone, or all is said.
async fn write_frames<S: AsyncWrite>(mut to: WriteHalf<S>, mut frames: mpsc::Receiver<Out>, idle: &Idle) {
    let mut buffer = BytesMut::with_capacity(BUFFER);
    let mut replies = Replies::default();
    let mut pings = (2u32..).step_by(2);
    loop {
        let out = tokio::select! {
            out = frames.recv() => out,
            () = tokio::time::sleep(PING) => pings.next().map(|id| Out::Ping { id }),
        };
        let mut next = out;
        let mut last = false;
        while let Some(out) = next {
            last |= matches!(out, Out::GoAway);
            if matches!(out, Out::Data { .. }) {
                idle.touch();
            }
            replies.put(out, &mut buffer);
            next = if buffer.len() < BUFFER && !last { frames.try_recv().ok() } else { None };
        }
        let written = async {
            to.write_all_buf(&mut buffer).await?;
            to.flush().await
        };
        if written.await.is_err() || last {
            let _gone = to.shutdown().await;
            return;
        }
        buffer.clear();
    }
}

/// What a writer has to remember: the blocks of all replies are packed in one go.
#[derive(Default)]
struct Replies {
    last: u32,
}

impl Replies {
    fn put(&mut self, out: Out, to: &mut BytesMut) {
        match out {
            Out::Data { id, fin, data } => frame::put_data(to, id, fin, &data),
            Out::Reply { id } => {
                frame::put_reply(to, id, headers::empty(self.last == 0));
                self.last = id;
            }
            Out::Reset { id, why } => frame::put_reset(to, id, why),
            Out::Ping { id } => frame::put_ping(to, id),
            Out::GoAway => frame::put_goaway(to, self.last),
        }
    }
}
