//! Ports over SPDY: each connection to a port is a pair of streams, one for data and one for what went wrong.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::pipes::PIECE;
use super::spdy::headers::Headers;
use super::spdy::{Gone, SpdyStream, serve};
use super::{CREATION, Connection, Place, PodStreams, StreamError};

/// The one subprotocol.
pub(crate) const PROTOCOLS: &[&str] = &["portforward.k8s.io"];

/// What a client is told about a connection that could not be had.
pub(crate) fn refusal(place: &Place, port: u16) -> impl Fn(&StreamError) -> String + use<> {
    let field = |field: &str| {
        let found = place.pod.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let (name, uid) = (field("name"), field("uid"));
    move |error| format!("error forwarding port {port} to pod {name}, uid {uid}: {error}")
}

/// Connects a client with ports of a pod until it goes.
pub(crate) async fn run<S>(socket: S, source: Arc<dyn PodStreams>, place: Place)
where
    S: AsyncRead + AsyncWrite + Send,
{
    serve(socket, is_half, |streams| Forwarder { source, place, halves: HashMap::new() }.run(streams)).await;
}

fn port(headers: &Headers) -> Option<u16> {
    headers.get("port")?.parse().ok().filter(|port| *port > 0)
}

fn is_half(headers: &Headers) -> bool {
    port(headers).is_some() && matches!(headers.get("streamtype"), Some("data" | "error"))
}

struct Forwarder {
    source: Arc<dyn PodStreams>,
    place: Place,
    /// Streams whose other half is still to come, and until when.
    halves: HashMap<String, (SpdyStream, Instant)>,
}

/// Both streams of a connection.
struct Pair {
    data: SpdyStream,
    error: SpdyStream,
}

impl Forwarder {
    async fn run(mut self, mut streams: mpsc::Receiver<SpdyStream>) {
        let mut pairs = FuturesUnordered::new();
        loop {
            let next = self.halves.values().map(|(_, until)| *until).min();
            tokio::select! {
                stream = streams.recv() => {
                    let Some(stream) = stream else { return };
                    if let Some(pair) = self.pair(stream) {
                        pairs.push(pair.forward(Arc::clone(&self.source), self.place.clone()));
                    }
                }
                // A pair that ended has said all there was to say.
                Some(_ended) = pairs.next() => {}
                () = or_never(next) => self.give_up().await,
            }
        }
    }

    /// Finds the other half of a stream, or keeps it until that comes.
    fn pair(&mut self, stream: SpdyStream) -> Option<Pair> {
        let request = request(&stream);
        let is_data = |stream: &SpdyStream| stream.headers.get("streamtype") == Some("data");
        match self.halves.remove(&request) {
            Some((other, _)) if is_data(&other) && !is_data(&stream) => {
                Some(Pair { data: other, error: stream })
            }
            Some((other, _)) if !is_data(&other) && is_data(&stream) => {
                Some(Pair { data: stream, error: other })
            }
            // A second one of the same kind takes the place of the first.
            _ => {
                self.halves.insert(request, (stream, Instant::now() + CREATION));
                None
            }
        }
    }

    async fn give_up(&mut self) {
        let now = Instant::now();
        let late: Vec<String> =
            self.halves.iter().filter(|(_, (_, until))| *until <= now).map(|(id, _)| id.clone()).collect();
        for id in late {
            if let Some((stream, _)) = self.halves.remove(&id) {
                let _client_is_gone = stream.sender().cancel().await;
            }
        }
    }
}

/// What the two streams of a connection have in common. Old clients do not say: with them the error stream comes first
/// and the data stream next.
fn request(stream: &SpdyStream) -> String {
    match (stream.headers.get("requestid"), stream.headers.get("streamtype")) {
        (Some(id), _) if !id.is_empty() => id.to_owned(),
        (_, Some("data")) => stream.id.saturating_sub(2).to_string(),
        _ => stream.id.to_string(),
    }
}

async fn or_never(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Pair {
    async fn forward(self, source: Arc<dyn PodStreams>, place: Place) -> Result<(), Gone> {
        let port = port(&self.data.headers).unwrap_or_default();
        let text = refusal(&place, port);
        match source.connect(place, port).await {
            Ok(connection) => self.carry(connection).await,
            Err(error) => {
                self.error.sender().finish(text(&error).into()).await?;
                self.data.sender().cancel().await
            }
        }
    }

    async fn carry(self, connection: Box<dyn Connection>) -> Result<(), Gone> {
        let Self { mut data, error } = self;
        let (mut read, mut write) = tokio::io::split(connection);
        let reset = data.reset.clone();
        let outgoing = data.sender();
        let inwards = async {
            while let Some(bytes) = data.recv().await {
                if write.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _closed = write.shutdown().await;
            Ok(())
        };
        let outwards = async {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(PIECE);
                match read.read_buf(&mut buffer).await {
                    Ok(count) if count > 0 => outgoing.send(buffer.split().freeze()).await?,
                    _ => return outgoing.finish(Bytes::new()).await,
                }
            }
        };
        tokio::select! {
            done = futures::future::try_join(inwards, outwards) => { done?; }
            // The client has no use for the rest.
            () = reset.cancelled() => {}
        }
        error.sender().finish(Bytes::new()).await
    }
}
