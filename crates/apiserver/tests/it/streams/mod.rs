//! Streams into pods, against a node that only plays one.

mod forward;
mod spdy;
mod websocket;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, SinkExt, StreamExt};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncWriteExt, copy, duplex};
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use trainyard_apiserver::Server;
use trainyard_apiserver::streams::{Connection, Place, PodStreams, StreamError, Streams};

use crate::harness::{Api, PODS, clock, pod};

/// A node without processes: commands are names of what it does with the streams.
#[derive(Default)]
pub(super) struct Node {
    pub(super) asked: Mutex<Vec<(String, Vec<String>, bool)>>,
    /// Commands that were dropped in the middle.
    pub(super) dropped: Arc<Notify>,
    /// Bytes that went into pipes.
    pub(super) flooded: Arc<AtomicUsize>,
}

/// Says that it was dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn act(command: &[String], mut streams: Streams, guard: Guard, flooded: Arc<AtomicUsize>) -> i32 {
    let Streams { stdin, stdout, stderr, sizes, .. } = &mut streams;
    match command.first().map(String::as_str).unwrap_or_default() {
        "cat" => {
            copy(stdin.as_mut().unwrap(), stdout.as_mut().unwrap()).await.unwrap();
            0
        }
        "both" => {
            stdout.as_mut().unwrap().write_all(b"out").await.unwrap();
            stderr.as_mut().unwrap().write_all(b"err").await.unwrap();
            3
        }
        "sizes" => {
            for _ in 0..2 {
                let size = sizes.recv().await.unwrap();
                let text = format!("{}x{}\n", size.columns, size.rows);
                stdout.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
            }
            0
        }
        "deaf" => {
            *stdin = None;
            stdout.as_mut().unwrap().write_all(b"deaf").await.unwrap();
            std::future::pending().await
        }
        "flood" => loop {
            let wrote = stdout.as_mut().unwrap().write(&[7; 1000]).await.unwrap();
            flooded.fetch_add(wrote, Ordering::SeqCst);
        },
        _ => {
            let _guard = guard;
            std::future::pending().await
        }
    }
}

impl PodStreams for Node {
    fn check(&self, place: &Place) -> Result<(), StreamError> {
        match place.container.as_str() {
            "stopped" => Err(StreamError("container not found (\"stopped\")".into())),
            _ => Ok(()),
        }
    }

    fn exec(
        &self,
        place: Place,
        command: Vec<String>,
        streams: Streams,
    ) -> BoxFuture<'static, Result<i32, StreamError>> {
        self.asked.lock().unwrap().push((place.container, command.clone(), streams.tty));
        let (guard, flooded) = (Guard(self.dropped.clone()), self.flooded.clone());
        async move {
            if command == ["fail"] {
                return Err(StreamError("no such program".into()));
            }
            Ok(act(&command, streams, guard, flooded).await)
        }
        .boxed()
    }

    fn attach(&self, place: Place, mut streams: Streams) -> BoxFuture<'static, Result<(), StreamError>> {
        async move {
            let text = format!("attached to {}\n", place.container);
            streams.stdout.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
            Ok(())
        }
        .boxed()
    }

    fn connect(
        &self,
        _place: Place,
        port: u16,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>, StreamError>> {
        async move {
            if port == 9 {
                return Err(StreamError("connection refused".into()));
            }
            let (own, other) = duplex(1024);
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(other);
                write.write_all(format!("port {port}\n").as_bytes()).await.unwrap();
                let _client_is_gone = copy(&mut read, &mut write).await;
            });
            Ok(Box::new(own) as _)
        }
        .boxed()
    }
}

pub(super) struct Bed {
    pub(super) api: Api,
    pub(super) node: Arc<Node>,
}

pub(super) const ONE: &str = "/api/v1/namespaces/default/pods/one";
pub(super) const TWO: &str = "/api/v1/namespaces/default/pods/two";

impl Bed {
    /// A server with a pod of one container and one of several, both placed, and one that is not.
    pub(super) async fn new() -> Self {
        let node = Arc::new(Node::default());
        let api = Api::with(Server::options().clock(clock()).pod_streams(node.clone()));
        api.ok("POST", PODS, pod("one")).await;
        let mut two = pod("two");
        let container = |name: &str| json!({"name": name, "image": "i"});
        two["spec"]["containers"] = json!([container("a"), container("stopped")]);
        two["spec"]["initContainers"] = json!([container("prepare")]);
        api.ok("POST", PODS, two).await;
        api.ok("POST", PODS, pod("unplaced")).await;
        for path in [ONE, TWO] {
            let name = path.rsplit('/').next();
            let binding = json!({"metadata": {"name": name}, "target": {"name": "n"}});
            api.ok("POST", &format!("{path}/binding"), binding).await;
        }
        Self { api, node }
    }

    /// Sends one request on a connection of its own.
    pub(super) async fn send(&self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        let (client, server) = duplex(64 * 1024);
        let service = TowerToHyperService::new(self.api.router.clone());
        let serving =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
        tokio::spawn(serving.with_upgrades());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }

    /// A request for a WebSocket.
    pub(super) async fn websocket(&self, path: &str, protocols: &str) -> Response<Incoming> {
        let mut request = Request::get(path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        if !protocols.is_empty() {
            request = request.header("sec-websocket-protocol", protocols);
        }
        self.send(request.body(Empty::new()).unwrap()).await
    }

    /// A WebSocket that has to be had.
    pub(super) async fn socket(&self, path: &str, protocols: &str) -> Socket {
        let response = self.websocket(path, protocols).await;
        let headers = response.headers().clone();
        let response = refused(response, 101).await.unwrap();
        assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let io = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        Socket { socket: WebSocketStream::from_raw_socket(io, Role::Client, None).await, headers }
    }
}

/// The response if it has the code; its text otherwise.
pub(super) async fn refused(response: Response<Incoming>, code: u16) -> Result<Response<Incoming>, String> {
    if response.status() == code {
        return Ok(response);
    }
    let status = response.status();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    Err(format!("{status} {}", String::from_utf8_lossy(&text)))
}

pub(super) struct Socket {
    pub(super) socket: WebSocketStream<TokioIo<Upgraded>>,
    pub(super) headers: HeaderMap,
}

impl Socket {
    pub(super) async fn say(&mut self, channel: u8, data: &[u8]) {
        let message = [&[channel], data].concat();
        self.socket.send(Message::binary(message)).await.unwrap();
    }

    /// The next message with data; nothing at the end.
    pub(super) async fn hear(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Binary(data)) => return data.split_first().map(|(c, rest)| (*c, rest.to_vec())),
                Ok(Message::Text(text)) => {
                    return text.as_bytes().split_first().map(|(c, rest)| (*c, rest.to_vec()));
                }
                Ok(Message::Close(frame)) => {
                    assert_eq!(u16::from(frame.unwrap().code), 1000);
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// Everything up to the end, by channel, and the status.
    pub(super) async fn rest(&mut self) -> (Vec<u8>, Vec<u8>, Value) {
        let (mut out, mut err, mut status) = (Vec::new(), Vec::new(), Value::Null);
        while let Some((channel, data)) = self.hear().await {
            match channel {
                1 => out.extend_from_slice(&data),
                2 => err.extend_from_slice(&data),
                3 => {
                    status = serde_json::from_slice(&data)
                        .unwrap_or_else(|_| json!(String::from_utf8(data).unwrap()))
                }
                other => panic!("channel {other}"),
            }
        }
        (out, err, status)
    }
}
