//! Connections of clients that say nothing.

use axum::routing::get;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsConnector;

use super::*;

/// A page behind TLS, with this much room.
struct Page {
    address: std::net::SocketAddr,
    client: Arc<ClientConfig>,
}

impl Page {
    async fn new(limits: Limits) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let root = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![root.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "here" }));
        tokio::spawn(serve_within(limits, router, listener, Arc::new(tls), CancellationToken::new()));
        Self { address, client: Arc::new(client) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn shake_hands(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(&self.client)).connect(name, self.connect().await).await.unwrap()
    }
}

/// Before, as many connections as there were places locked everybody out until a time-out.
#[tokio::test]
async fn idle_connections_lock_nobody_out() {
    let page = Page::new(Limits { strangers: 4, ..Limits::default() }).await;
    let mut shaken = Vec::new();
    for _ in 0..6 {
        shaken.push(page.shake_hands().await);
    }
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(page.connect().await);
    }
    let mut client = page.shake_hands().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
    // Those that were closed for it learn so.
    let mut byte = [0];
    assert!(!matches!(shaken[0].read(&mut byte).await, Ok(1..)));
    assert!(!matches!(silent[0].read(&mut byte).await, Ok(1..)));
}
