//! Ports over a WebSocket: each has two channels, one for data and one for what went wrong.

use bytes::{Bytes, BytesMut};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::channels::{Dialect, Said};
use super::pipes::PIECE;
use super::upgrade::Idle;
use super::ws_exec::{bye, next};
use super::{LINGER, Place, PodStreams};

/// Ports of one connection. A channel's number is one byte, and each port has two.
pub(crate) const PORTS: usize = 100;
/// Messages to a port that wait to be taken; then the client waits.
const WAITING: usize = 4;

/// Connects a client with ports of a pod until all of them are closed, or the client goes.
pub(crate) async fn run<S>(
    socket: WebSocketStream<S>,
    dialect: Dialect,
    source: Arc<dyn PodStreams>,
    place: Place,
    ports: Vec<u16>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut messages) = socket.split();
    let idle = Idle::new();
    let (outbox, mut outgoing) = mpsc::channel::<Message>(WAITING);
    let mut inboxes = Vec::new();
    let all = FuturesUnordered::new();
    for (index, port) in ports.into_iter().enumerate() {
        let (inbox, incoming) = mpsc::channel(WAITING);
        inboxes.push(inbox);
        let channel = u8::try_from(index * 2).unwrap_or(u8::MAX);
        let end = Port { dialect, channel, port, outbox: outbox.clone() };
        all.push(end.run(Arc::clone(&source), place.clone(), incoming).boxed());
    }
    drop(outbox);
    let writing = async {
        while let Some(message) = outgoing.recv().await {
            idle.touch();
            if sink.send(message).await.is_err() {
                return false;
            }
        }
        true
    };
    let listening = async {
        while let Some(message) = next(&mut messages).await {
            idle.touch();
            if let Said::Data(channel, data) = dialect.hear(message)
                && channel % 2 == 0
                && let Some(inbox) = inboxes.get(usize::from(channel / 2))
            {
                let _port_is_closed = inbox.send(data).await;
            }
        }
    };
    let serving = async { futures::join!(all.collect::<Vec<()>>(), writing).1 };
    let all_said = tokio::select! {
        () = listening => false,
        () = idle.expired() => false,
        all_said = serving => all_said,
    };
    if all_said {
        bye(sink, messages, LINGER).await;
    }
}

/// One port of a connection.
struct Port {
    dialect: Dialect,
    /// Of its data; errors have the next one.
    channel: u8,
    port: u16,
    outbox: mpsc::Sender<Message>,
}

impl Port {
    async fn run(self, source: Arc<dyn PodStreams>, place: Place, incoming: mpsc::Receiver<Bytes>) {
        let number = self.port.to_le_bytes();
        self.say(self.channel, &number).await;
        self.say(self.channel.saturating_add(1), &number).await;
        let text = super::spdy_forward::refusal(&place, self.port);
        match source.connect(place, self.port).await {
            Ok(connection) => self.carry(connection, incoming).await,
            Err(error) => self.say(self.channel.saturating_add(1), text(&error).as_bytes()).await,
        }
    }

    async fn say(&self, channel: u8, data: &[u8]) {
        let _client_is_gone = self.outbox.send(self.dialect.say(channel, data)).await;
    }

    async fn carry(self, connection: Box<dyn super::Connection>, mut incoming: mpsc::Receiver<Bytes>) {
        let (mut read, mut write) = tokio::io::split(connection);
        let inwards = async {
            while let Some(data) = incoming.recv().await {
                if write.write_all(&data).await.is_err() {
                    break;
                }
            }
            let _closed = write.shutdown().await;
            // The client cannot close one port alone: its end is the connection's.
            std::future::pending::<()>().await;
        };
        let outwards = async {
            loop {
                let mut piece = BytesMut::with_capacity(PIECE + 1);
                piece.extend_from_slice(&self.dialect.prefix(self.channel));
                match read.read_buf(&mut piece).await {
                    Ok(count) if count > 0 => {}
                    _ => return,
                }
                if self.outbox.send(self.dialect.message(piece)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = inwards => {}
            () = outwards => {}
        }
    }
}
