//! A process over a WebSocket.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::channels::{Dialect, ERROR, RESIZE, STDERR, STDIN, STDOUT, Said};
use super::pipes::{Ends, Resizes, Stdin, piece};
use super::upgrade::Idle;
use super::{Job, LINGER, PING};

/// Connects a client and a process until the process ends, or the client goes: then the job is dropped.
pub(crate) async fn run<S>(socket: WebSocketStream<S>, dialect: Dialect, ends: Ends, job: Job)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut source) = socket.split();
    let idle = Idle::new();
    let Ends { mut stdin, stdout, stderr, mut resizes } = ends;
    let done = tokio::select! {
        () = listen(&mut source, dialect, &mut stdin, &mut resizes, &idle) => false,
        () = idle.expired() => false,
        told = tell(&mut sink, dialect, stdout, stderr, job, &idle) => told.is_ok(),
    };
    if done {
        bye(sink, source, LINGER).await;
    }
}

/// Hears the client until it goes.
async fn listen<S>(
    source: &mut SplitStream<WebSocketStream<S>>,
    dialect: Dialect,
    stdin: &mut Stdin,
    resizes: &mut Resizes,
    idle: &Idle,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = next(source).await {
        idle.touch();
        match dialect.hear(message) {
            Said::Data(STDIN, data) => stdin.put(&data).await,
            Said::Data(RESIZE, data) => resizes.put(&data).await,
            Said::Close(STDIN) => stdin.close(),
            Said::Close(channel) if channel > RESIZE => return,
            Said::Data(..) | Said::Close(_) | Said::Nothing => {}
            Said::Nonsense => return,
        }
    }
}

/// The next message with data; nothing when the client has gone.
pub(crate) async fn next<S>(source: &mut SplitStream<WebSocketStream<S>>) -> Option<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match source.next().await? {
            Ok(Message::Binary(data)) => return Some(data),
            Ok(Message::Text(text)) => return Some(text.into()),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(_)) | Err(_) => return None,
        }
    }
}

/// Tells the client everything, the end last.
async fn tell<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    dialect: Dialect,
    mut stdout: Option<DuplexStream>,
    mut stderr: Option<DuplexStream>,
    job: Job,
    idle: &Idle,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // An empty message says that the connection stands.
    let first = if stdout.is_some() {
        STDOUT
    } else if stderr.is_some() {
        STDERR
    } else {
        ERROR
    };
    sink.send(dialect.say(first, &[])).await?;
    let copying = async {
        let (out, err) = (dialect.prefix(STDOUT), dialect.prefix(STDERR));
        while stdout.is_some() || stderr.is_some() {
            let piece = tokio::select! {
                piece = piece(&mut stdout, &out) => piece,
                piece = piece(&mut stderr, &err) => piece,
                () = tokio::time::sleep(PING) => {
                    sink.send(Message::Ping(Bytes::new())).await?;
                    continue;
                }
            };
            if let Some(piece) = piece {
                idle.touch();
                sink.send(dialect.message(piece)).await?;
            }
        }
        Ok::<_, Error>(sink)
    };
    let ending = async { Ok(job.await) };
    let (sink, outcome) = futures::future::try_join(copying, ending).await?;
    let outcome = if dialect.translates() { outcome.translated() } else { outcome };
    if dialect.status {
        sink.send(dialect.say(ERROR, outcome.json().to_string().as_bytes())).await?;
    } else if let Some(text) = outcome.text() {
        sink.send(dialect.say(ERROR, text.as_bytes())).await?;
    }
    Ok(())
}

/// Ends a conversation: the client hears that all is said, and gets a moment to hear it.
pub(crate) async fn bye<S>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut source: SplitStream<WebSocketStream<S>>,
    linger: Duration,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    let last = async {
        if sink.send(Message::Close(Some(close))).await.is_ok() {
            while let Some(Ok(_)) = source.next().await {}
        }
        let _gone = sink.close().await;
    };
    let _patience_is_over = tokio::time::timeout(linger, last).await;
}
