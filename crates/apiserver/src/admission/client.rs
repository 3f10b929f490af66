//! Calls webhooks: TLS with the certificates of their configuration, a limit on time and size, connections that are
//! used again.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::{Hook, Target};
use super::service;
use super::verifier::Verifier;
use crate::app::App;

/// The largest answer that is read.
const LIMIT: usize = 3 * 1024 * 1024;
/// Connections kept for one webhook, and webhooks for which some are kept.
const IDLE: usize = 16;
const PLACES: usize = 256;

type Sender = SendRequest<Full<Bytes>>;

/// Connections that wait for the next question, by whom they lead to and how that was checked.
#[derive(Default)]
pub(super) struct Client {
    idle: Mutex<HashMap<(String, String), Vec<Sender>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Where a question goes.
struct Place {
    /// The name its certificate must have.
    server: String,
    port: u16,
    path: String,
    /// As messages name it.
    url: String,
}

fn place(hook: &Hook) -> Result<Place, String> {
    let seconds = hook.timeout.as_secs();
    match &hook.target {
        Target::Service { namespace, name, port, path } => {
            let server = format!("{name}.{namespace}.svc");
            let slash = if path.starts_with('/') { "" } else { "/" };
            let path = format!("{slash}{path}?timeout={seconds}s");
            Ok(Place { url: format!("https://{server}:{port}{path}"), server, port: *port, path })
        }
        Target::Url(url) => {
            let uri: Uri =
                url.parse().map_err(|error| format!("could not get REST client: Unparsable URL: {error}"))?;
            let host = uri.host().unwrap_or_default();
            let server = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(443);
            let path = format!("{}?timeout={seconds}s", uri.path());
            let shown = uri.authority().map_or(host, |authority| authority.as_str());
            Ok(Place { url: format!("https://{shown}{path}"), server, port, path })
        }
        Target::Nowhere => {
            Err("could not get REST client: webhook configuration must have either service or URL".into())
        }
    }
}

impl Client {
    /// Puts a question to a webhook. The error is for people, in the words of a real server.
    pub(super) async fn ask(&self, app: &App, hook: &Hook, body: Bytes) -> Result<Bytes, String> {
        let place = place(hook)?;
        let failed = |why: String| format!("failed to call webhook: {why}");
        let posted = |why: String| failed(format!("Post {:?}: {why}", place.url));
        let answer = tokio::time::timeout(hook.timeout, self.exchange(app, hook, &place, body)).await;
        let (code, bytes) =
            answer.map_err(|_| posted("context deadline exceeded".into()))?.map_err(posted)?;
        if (200..300).contains(&code) {
            return Ok(bytes);
        }
        Err(failed(refusal(code, &bytes)))
    }

    async fn exchange(
        &self,
        app: &App,
        hook: &Hook,
        place: &Place,
        body: Bytes,
    ) -> Result<(u16, Bytes), String> {
        let key = (format!("{}:{}", place.server, place.port), hook.bundle.clone());
        while let Some(mut sender) = self.take(&key) {
            if sender.ready().await.is_err() {
                continue;
            }
            match send(&mut sender, place, body.clone()).await {
                Ok(answer) => {
                    self.keep(key, sender);
                    return Ok(answer);
                }
                // Its server had ended it: that says nothing about the next.
                Err(Broken::Before) => {}
                Err(Broken::Within(why)) => return Err(why),
            }
        }
        let mut sender = connect(app, hook, place).await?;
        let answer = send(&mut sender, place, body).await.map_err(|broken| match broken {
            Broken::Before => "EOF".to_owned(),
            Broken::Within(why) => why,
        })?;
        self.keep(key, sender);
        Ok(answer)
    }

    fn take(&self, key: &(String, String)) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(key)?.pop()
    }

    fn keep(&self, key: (String, String), sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= PLACES && !idle.contains_key(&key) {
            idle.clear();
        }
        let senders = idle.entry(key).or_default();
        senders.retain(|sender| !sender.is_closed());
        if senders.len() < IDLE && !sender.is_closed() {
            senders.push(sender);
        }
    }
}

/// How an exchange ended early.
enum Broken {
    /// Nothing was answered.
    Before,
    Within(String),
}

async fn send(sender: &mut Sender, place: &Place, body: Bytes) -> Result<(u16, Bytes), Broken> {
    let request = Request::post(&place.path)
        .header(HOST, format!("{}:{}", place.server, place.port))
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(body))
        .map_err(|error| Broken::Within(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| {
        if error.is_canceled() || error.is_incomplete_message() || error.is_closed() {
            Broken::Before
        } else {
            Broken::Within(error.to_string())
        }
    })?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), LIMIT).collect().await.map_err(|error| {
        let too_large = error.downcast_ref::<LengthLimitError>().is_some();
        Broken::Within(if too_large {
            format!("the answer has more than {LIMIT} bytes")
        } else {
            error.to_string()
        })
    })?;
    Ok((code, body.to_bytes()))
}

async fn connect(app: &App, hook: &Hook, place: &Place) -> Result<Sender, String> {
    let stream = match &hook.target {
        Target::Service { namespace, name, port, .. } => {
            let address = service::resolve(app, namespace, name, *port)?;
            TcpStream::connect(address).await.map_err(|error| dialled(&address.to_string(), &error))?
        }
        _ => {
            let address = format!("{}:{}", place.server, place.port);
            let stream = TcpStream::connect((place.server.as_str(), place.port)).await;
            stream.map_err(|error| dialled(&address, &error))?
        }
    };
    let name = ServerName::try_from(place.server.clone())
        .map_err(|_| format!("tls: {:?} is not a name a certificate can have", place.server))?;
    let connector = TlsConnector::from(tls(&hook.roots)?);
    let stream = connector.connect(name, stream).await.map_err(|error| shaken(&place.server, &error))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a webhook ended");
        }
    });
    Ok(sender)
}

/// Nobody but the given authorities is believed: webhooks are of this cluster, not of the internet.
fn tls(roots: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let config = if roots.is_empty() {
        config.with_root_certificates(RootCertStore::empty())
    } else {
        let verifier = Arc::new(Verifier::new(roots, provider)?);
        config.dangerous().with_custom_certificate_verifier(verifier)
    };
    Ok(Arc::new(config.with_no_client_auth()))
}

fn dialled(address: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {address}: connect: connection refused"),
        io::ErrorKind::ConnectionReset => format!("dial tcp {address}: connect: connection reset by peer"),
        _ => format!("dial tcp {address}: {error}"),
    }
}

/// What went wrong in a handshake.
fn shaken(server: &str, error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(other) => return format!("remote error: tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => return "EOF".into(),
        None => return error.to_string(),
    };
    let text = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::Other(error) if format!("{error:?}").contains("CaUsedAsEndEntity") => {
            "certificate signed by unknown authority (it is an authority itself, and not in the caBundle)"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not valid for any names, but wanted to match {server}")
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {text}")
}

/// What an answer without a review means.
fn refusal(code: u16, body: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(message) = status.get("message").and_then(|message| message.as_str())
        && status.get("kind").is_some_and(|kind| kind == "Status")
    {
        return message.to_owned();
    }
    match code {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 => "forbidden".into(),
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        409 => "the server reported a conflict".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .into(),
        500.. => {
            let text: String = String::from_utf8_lossy(body).chars().take(1000).collect();
            format!("an error on the server ({:?}) has prevented the request from succeeding", text.trim())
        }
        code => format!("the server responded with the status code {code} but did not return more details"),
    }
}
