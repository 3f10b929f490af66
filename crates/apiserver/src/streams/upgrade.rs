//! From a request to a connection with a protocol of its own: handshakes, and what holds for every such connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::IDLE;

/// Names the subprotocol of a SPDY connection.
pub(crate) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The largest message, as with a real server.
const MESSAGE: usize = 32 << 20;
/// What is read and written at once.
const BUFFER: usize = 64 * 1024;

/// What a client wants its connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    WebSocket,
    Spdy,
    /// Nothing that is served.
    Nothing,
}

impl Asked {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let says = |name: HeaderName, what: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.map(str::to_ascii_lowercase).any(|value| value.contains(what))
        };
        if !says(CONNECTION, "upgrade") {
            Self::Nothing
        } else if says(UPGRADE, "websocket") {
            Self::WebSocket
        } else if says(UPGRADE, "spdy/3.1") {
            Self::Spdy
        } else {
            Self::Nothing
        }
    }
}

/// A header whose values are separated by commas, in one line or many.
pub(crate) fn listed(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|value| !value.is_empty()).collect()
}

/// The subprotocols a WebSocket client offers.
pub(crate) fn offered(headers: &HeaderMap) -> Vec<&str> {
    listed(headers, SEC_WEBSOCKET_PROTOCOL)
}

fn text(code: StatusCode, message: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

/// A connection that was not taken over, and what the client is told.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Box<Response>);

impl Refused {
    /// In the way of a kubelet: in plain text.
    pub(crate) fn new(code: StatusCode, message: &str) -> Self {
        Self(Box::new(text(code, message)))
    }
}

fn switching(upgrade: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
    response
}

/// The answer to a WebSocket handshake; an error is an answer too.
pub(crate) fn accept_websocket(headers: &HeaderMap, protocol: Option<&str>) -> Result<Response, Refused> {
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        let mut response = text(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(Refused(Box::new(response)));
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    };
    let mut response = switching("websocket");
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let accept =
        accept.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))?;
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// The answer to a SPDY handshake and the subprotocol it settles on; an error is an answer too.
pub(crate) fn accept_spdy(
    headers: &HeaderMap,
    served: &[&'static str],
) -> Result<(Response, &'static str), Refused> {
    if !headers.contains_key(STREAM_PROTOCOL) {
        let count = headers.keys_len();
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            &format!(
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {count} headers"
            ),
        ));
    }
    let offered = listed(headers, STREAM_PROTOCOL);
    if offered.is_empty() {
        let values: Vec<&str> =
            headers.get_all(STREAM_PROTOCOL).iter().filter_map(|v| v.to_str().ok()).collect();
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            &format!(
                "unable to upgrade: header X-Stream-Protocol-Version contains [{}], but no valid protocols",
                values.join(" ")
            ),
        ));
    }
    let shared = offered.iter().find_map(|name| served.iter().find(|own| *own == name).copied());
    let Some(protocol) = shared else {
        let mut response = text(
            StatusCode::FORBIDDEN,
            &format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                offered.join(" "),
                served.join(" ")
            ),
        );
        for own in served {
            response.headers_mut().append(ACCEPTED_PROTOCOLS, HeaderValue::from_static(own));
        }
        return Err(Refused(Box::new(response)));
    };
    let mut response = switching("SPDY/3.1");
    response.headers_mut().insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    Ok((response, protocol))
}

/// The WebSocket on a connection whose handshake is over.
pub(crate) async fn websocket(upgraded: Upgraded) -> WebSocketStream<TokioIo<Upgraded>> {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_write_buffer_size(4 * BUFFER)
        .max_message_size(Some(MESSAGE))
        .max_frame_size(Some(MESSAGE));
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

/// Notices that nothing has happened for too long.
#[derive(Debug)]
pub(crate) struct Idle {
    begun: Instant,
    /// Milliseconds from the beginning to the last event.
    last: AtomicU64,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Something has happened.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns when nothing has happened for too long.
    pub(crate) async fn expired(&self) {
        loop {
            let last = self.last.load(Ordering::Relaxed);
            tokio::time::sleep_until(self.begun + Duration::from_millis(last) + IDLE).await;
            if self.last.load(Ordering::Relaxed) == last {
                return;
            }
        }
    }
}
