//! Request bodies: bounded, and only in formats that are understood.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::negotiate::MEDIA;
use crate::failure::Failure;
use crate::registry::Served;
use crate::types::{self, Message};
use crate::wire::Envelope;

/// The largest body that is read: twice what a real server's storage takes, as its own limit is.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A body that was not read yet.
pub(crate) struct Input {
    pub(crate) headers: HeaderMap,
    /// What the connection has to offer beside the request.
    pub(crate) extensions: Extensions,
    pub(crate) body: Body,
}

impl Input {
    /// The media type without its parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub(crate) async fn bytes(self) -> Result<Bytes, Failure> {
        match Limited::new(self.body, LIMIT).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(Failure::too_large(LIMIT))
            }
            Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
        }
    }

    /// An object of a kind.
    pub(crate) async fn object(self, kind: Kind<'_>) -> Result<Value, Failure> {
        let media_type = self.media_type();
        kind.check_media(&media_type)?;
        let bytes = self.bytes().await?;
        read(&bytes, &media_type, kind)
    }

    /// An object that may be left out.
    pub(crate) async fn optional(self, kind: Kind<'_>) -> Result<Option<Value>, Failure> {
        let media_type = self.media_type();
        let bytes = self.bytes().await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        kind.check_media(&media_type)?;
        read(&bytes, &media_type, kind).map(Some)
    }
}

/// The kind of object a body is taken for when it does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// Its type, unless it is custom.
    pub(crate) message: Option<&'static Message>,
}

impl Kind<'static> {
    /// A built-in kind.
    pub(crate) fn named(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { version, kind, message: types::of(group, version, kind) }
    }
}

impl<'a> Kind<'a> {
    /// The kind of a resource.
    pub(crate) fn of(served: &'a Served) -> Self {
        let Served { group, version, kind, .. } = served;
        let message = types::of(group, version, kind).filter(|_| !served.custom);
        Self { version, kind, message }
    }

    /// Refuses what cannot be read, before it is read.
    fn check_media(&self, media_type: &str) -> Result<(), Failure> {
        match media_type {
            "" | "application/json" | "application/yaml" => Ok(()),
            PROTOBUF if self.message.is_some() => Ok(()),
            _ => Err(Failure::unsupported_media(MEDIA)),
        }
    }

    fn unrecognized(&self, why: impl std::fmt::Display, bytes: &[u8]) -> Failure {
        let (kind, data) = (self.kind, summary(bytes));
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({data})"
        ))
    }
}

/// The beginning of a body, for an error.
fn summary(bytes: &[u8]) -> String {
    const MOST: usize = 30;
    let head = bytes.get(..MOST).unwrap_or(bytes);
    let more = if bytes.len() > MOST { " ..." } else { "" };
    match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => format!("{}{more}", head.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

fn read(bytes: &[u8], media_type: &str, kind: Kind<'_>) -> Result<Value, Failure> {
    match (media_type, kind.message) {
        ("application/yaml", _) => yaml(bytes),
        (PROTOBUF, Some(message)) => protobuf(bytes, message, kind),
        _ => json(bytes),
    }
}

/// An object in its envelope. What the envelope does not name is what was expected.
fn protobuf(bytes: &[u8], message: &'static Message, wanted: Kind<'_>) -> Result<Value, Failure> {
    let envelope = Envelope::open(bytes).map_err(|error| wanted.unrecognized(error, bytes))?;
    let mut object = envelope.decode(message).map_err(|error| {
        Failure::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {error}",
            wanted.version,
            kind = wanted.kind
        ))
    })?;
    for (field, value) in [("kind", envelope.kind), ("apiVersion", envelope.api_version)] {
        if !value.is_empty() {
            object.insert(field.into(), value.into());
        }
    }
    Ok(Value::Object(object))
}

/// Parses JSON; the parser bounds the nesting.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::bad_request(format!("the object provided is unrecognized: {error}")))
}

pub(crate) fn yaml(bytes: &[u8]) -> Result<Value, Failure> {
    serde_saphyr::from_slice(bytes)
        .map_err(|error| Failure::bad_request(format!("the object provided is unrecognized: {error}")))
}
