//! A stream of bytes inside a WebSocket: newer clients speak SPDY through one.

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::pipes::PIECE;
use super::ws_exec::{bye, next};
use super::{LINGER, PING};

/// What the pipe between the two protocols holds.
const PIPE: usize = 64 * 1024;

/// The bytes in the WebSocket, and what moves them: to be run beside whoever uses them.
pub(crate) fn tunnel<S>(socket: WebSocketStream<S>) -> (DuplexStream, impl Future<Output = ()> + Send)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (inside, outside) = duplex(PIPE);
    (inside, carry(socket, outside))
}

async fn carry<S>(socket: WebSocketStream<S>, outside: DuplexStream)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut source) = socket.split();
    let (mut from_inside, mut to_inside) = split(outside);
    let inwards = async {
        while let Some(data) = next(&mut source).await {
            if to_inside.write_all(&data).await.is_err() {
                return;
            }
        }
    };
    let outwards = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            let message = tokio::select! {
                read = from_inside.read_buf(&mut buffer) => match read {
                    Ok(count) if count > 0 => Message::Binary(buffer.split().freeze()),
                    _ => return true,
                },
                () = tokio::time::sleep(PING) => Message::Ping(bytes::Bytes::new()),
            };
            if sink.send(message).await.is_err() {
                return false;
            }
        }
    };
    let all_said = tokio::select! {
        () = inwards => false,
        all_said = outwards => all_said,
    };
    if all_said {
        bye(sink, source, LINGER).await;
    }
}
