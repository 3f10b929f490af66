//! The API on a real socket, with real TLS: protocols, tokens, clients that stall, and the end.

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::auth::{self, Authenticator, Identity, Tokens};
use trainyard_apiserver::{Server, serve};

use crate::harness::{MAPS, map};

const TOKEN: &str = "0123456789abcdef";

/// A served API, and what a client has to know of it.
struct Served {
    address: SocketAddr,
    root: CertificateDer<'static>,
    shutdown: CancellationToken,
    ended: JoinHandle<io::Result<()>>,
    _server: Server,
}

impl Served {
    async fn new(wrap: impl FnOnce(Router) -> Router) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let root = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![root.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let authenticator = Authenticator::new(Tokens::new([TOKEN]), Identity::internal("me"));
        let server = Server::open(Server::options().authenticator(authenticator)).unwrap();
        let router = auth::require(wrap(server.router()), server.guard());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let ended = tokio::spawn(serve::serve(router, listener, Arc::new(tls), shutdown.clone()));
        Self { address, root, shutdown, ended, _server: server }
    }

    async fn tls(&self, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        stream
    }

    async fn connect(&self, protocol: &str) -> Client {
        let io = TokioIo::new(self.tls(protocol).await);
        if protocol == "h2" {
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            Client::Two(sender)
        } else {
            let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            Client::One(sender)
        }
    }

    /// Waits for the end, which has to come without an error.
    async fn end(self) {
        self.shutdown.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

enum Client {
    One(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Two(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn send(
        &mut self,
        method: &str,
        path: &str,
        authorization: &str,
        body: Value,
    ) -> Response<Incoming> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
        if !authorization.is_empty() {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        match self {
            Self::One(sender) => {
                sender.ready().await.unwrap();
                sender.send_request(request).await.unwrap()
            }
            Self::Two(sender) => {
                sender.ready().await.unwrap();
                sender.send_request(request).await.unwrap()
            }
        }
    }

    async fn call(&mut self, method: &str, path: &str, body: Value) -> Response<Incoming> {
        self.send(method, path, &format!("Bearer {TOKEN}"), body).await
    }
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The next line of a watch; nothing at its end.
async fn line(watch: &mut Response<Incoming>) -> Option<Value> {
    loop {
        let data = watch.body_mut().frame().await?.unwrap().into_data().unwrap();
        // HTTP/2 may end with a frame that has nothing in it but the end.
        if !data.is_empty() {
            return Some(serde_json::from_slice(&data).unwrap());
        }
    }
}

#[tokio::test]
async fn both_protocols_read_write_and_watch() {
    let served = Served::new(|router| router).await;
    for protocol in ["h2", "http/1.1"] {
        let mut client = served.connect(protocol).await;
        let mut watcher = served.connect(protocol).await;
        let name = protocol.replace('/', "-");
        let mut watch = watcher.call("GET", &format!("{MAPS}?watch=true"), Value::Null).await;
        assert_eq!(client.call("POST", MAPS, map(&name)).await.status(), 201, "{protocol}");
        let event = line(&mut watch).await.unwrap();
        assert_eq!(event["object"]["metadata"]["name"], name.as_str());
        let one = format!("{MAPS}/{name}");
        let read: Value =
            serde_json::from_str(&text(client.call("GET", &one, Value::Null).await).await).unwrap();
        assert_eq!(read, event["object"]);
        assert_eq!(client.call("DELETE", &one, Value::Null).await.status(), 200, "{protocol}");
        assert_eq!(line(&mut watch).await.unwrap()["type"], "DELETED");
    }
    served.end().await;
}

#[tokio::test]
async fn nobody_gets_in_without_a_token() {
    let served = Served::new(|router| router).await;
    let mut client = served.connect("h2").await;
    let refused = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401,
    });
    let short = format!("Bearer {}", &TOKEN[1..]);
    for authorization in
        ["", "Bearer", "Bearer ", "Bearer wrong", short.as_str(), TOKEN, "Basic 0123456789abcdef"]
    {
        for (method, path) in
            [("GET", "/api/v1/pods"), ("POST", MAPS), ("GET", "/nothing"), ("POST", "/readyz")]
        {
            let reply = client.send(method, path, authorization, Value::Null).await;
            assert_eq!(reply.status(), 401, "{authorization:?} {method} {path}");
            assert_eq!(reply.headers()["content-type"], "application/json");
            assert_eq!(serde_json::from_str::<Value>(&text(reply).await).unwrap(), refused);
        }
        for path in ["/livez", "/readyz", "/healthz", "/version"] {
            // A wrong token is an error everywhere; no token is nobody, who may see these.
            let wrong = authorization == "Bearer wrong" || authorization == short;
            let code = if wrong { 401 } else { 200 };
            assert_eq!(client.send("GET", path, authorization, Value::Null).await.status(), code, "{path}");
        }
    }
    let lower = format!("bearer   {TOKEN}");
    assert_eq!(client.send("GET", "/api/v1/pods", &lower, Value::Null).await.status(), 200);
    served.end().await;
}

#[tokio::test]
async fn clients_that_stall_hold_up_nobody() {
    let served = Served::new(|router| router).await;
    let mut stalled = Vec::new();
    for _ in 0..100 {
        stalled.push(TcpStream::connect(served.address).await.unwrap());
    }
    let mut client = served.connect("http/1.1").await;
    assert_eq!(client.call("GET", MAPS, Value::Null).await.status(), 200);
    // Nor do they hold up the end, which they are told of.
    served.end().await;
    for mut stream in stalled {
        assert!(matches!(stream.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    }
}

#[tokio::test]
async fn the_end_closes_watches_and_lets_requests_finish() {
    let (began, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begin, wait) = (Arc::clone(&began), Arc::clone(&release));
    let slow = move || async move {
        begin.notify_one();
        wait.notified().await;
        "done"
    };
    let served = Served::new(|router| Router::new().route("/slow", get(slow)).fallback_service(router)).await;
    let mut watches = Vec::new();
    let mut clients = Vec::new();
    for protocol in ["h2", "http/1.1"] {
        let mut client = served.connect(protocol).await;
        watches.push(client.call("GET", &format!("{MAPS}?watch=true"), Value::Null).await);
        clients.push(client);
    }
    let mut client = served.connect("http/1.1").await;
    let answer = tokio::spawn(async move { text(client.call("GET", "/slow", Value::Null).await).await });
    began.notified().await;
    served.shutdown.cancel();
    for mut watch in watches {
        assert_eq!(line(&mut watch).await, None, "a clean end");
    }
    assert!(!served.ended.is_finished(), "a request is under way");
    release.notify_one();
    assert_eq!(answer.await.unwrap(), "done");
    let address = served.address;
    served.end().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
}

#[tokio::test]
async fn dropping_it_closes_everything() {
    let served = Served::new(|router| router).await;
    let mut client = served.connect("http/1.1").await;
    let mut watch = client.call("GET", &format!("{MAPS}?watch=true"), Value::Null).await;
    served.ended.abort();
    // Cut off, so that the client does not take it for a complete answer.
    assert!(watch.body_mut().frame().await.unwrap().is_err());
}

/// Virtual time from here on: whoever waits for a limit finds it reached.
#[tokio::test]
async fn silence_has_limits() {
    let served = Served::new(|router| router).await;
    let mut handshake = TcpStream::connect(served.address).await.unwrap();
    let mut silent = [served.tls("http/1.1").await, served.tls("h2").await];
    tokio::time::pause();
    assert_eq!(handshake.read(&mut [0; 8]).await.unwrap(), 0, "a handshake that never comes");
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "a request that never comes");
    }
    drop(served);
}

#[tokio::test]
async fn a_request_that_never_finishes_does_not_keep_the_server() {
    let began = Arc::new(Notify::new());
    let begin = Arc::clone(&began);
    let stuck = move || async move {
        begin.notify_one();
        std::future::pending::<&str>().await
    };
    let served =
        Served::new(|router| Router::new().route("/stuck", get(stuck)).fallback_service(router)).await;
    let mut stream = served.tls("http/1.1").await;
    let request = format!("GET /stuck HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    began.notified().await;
    tokio::time::pause();
    served.end().await;
    assert!(matches!(stream.read(&mut [0; 8]).await, Ok(0) | Err(_)));
}

const CHILD: &str = "TRAINYARD_TEST_FEW_FILES";

/// A process that has run out of file descriptors serves again as soon as it has some.
#[cfg(unix)]
#[test]
fn running_out_of_files_is_survived() {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 60 && exec \"$0\" --exact serving::child_with_few_files --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("survived"), "{text}{errors}");
}

/// The other process of the test above; does nothing when run as a test.
#[tokio::test]
async fn child_with_few_files() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let served = Served::new(|router| router).await;
    // Each takes one of ours; the server's end takes another, until there are none.
    let mut streams = Vec::new();
    while let Ok(stream) = TcpStream::connect(served.address).await {
        streams.push(stream);
    }
    assert!(streams.len() > 20);
    // Those at the back of the queue were never accepted: with their files closed the server comes to them.
    streams.truncate(streams.len() / 2);
    let mut client = served.connect("h2").await;
    assert_eq!(client.call("GET", MAPS, Value::Null).await.status(), 200);
    served.end().await;
    println!("survived");
}
