//! One client for both servers: HTTP/2 over TLS, with whatever headers a row wants.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server, as clients know it.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    pub(crate) token: String,
    tls: Arc<ClientConfig>,
}

/// An answer that was read to its end.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) type Connection = SendRequest<Full<Bytes>>;

impl Target {
    pub(crate) fn new(address: &str, token: &str, ca_pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Self { address: address.to_owned(), token: token.to_owned(), tls: Arc::new(tls) }
    }

    pub(crate) async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(&self.address).await.map_err(|e| format!("connecting: {e}"))?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        let io = TokioIo::new(stream.map_err(|e| format!("TLS: {e}"))?);
        let (sender, connection) =
            handshake(TokioExecutor::new(), io).await.map_err(|e| format!("HTTP/2: {e}"))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Sends a request and waits for the head of the answer.
pub(crate) async fn send(
    connection: &mut Connection,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: Bytes,
) -> Result<Response<Incoming>, String> {
    let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body)).map_err(|e| format!("{method} {path}: {e}"))?;
    connection.ready().await.map_err(|e| format!("{method} {path}: {e}"))?;
    connection.send_request(request).await.map_err(|e| format!("{method} {path}: {e}"))
}

pub(crate) async fn read(response: Response<Incoming>) -> Result<Answer, String> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|e| format!("reading the answer: {e}"))?.to_bytes();
    Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
}

/// Events of a watch, one per line.
pub(crate) struct Events {
    body: Incoming,
    rest: Vec<u8>,
}

impl Events {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// The next line; nothing when the answer ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).collect();
                return Ok(Some(line));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(format!("reading events: {error}")),
                Some(Ok(frame)) => {
                    self.rest.extend(frame.into_data().unwrap_or_default());
                }
            }
        }
    }
}
