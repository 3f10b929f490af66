//! Request bodies: bounded, and only in formats that are understood.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use std::time::Duration;

use super::aside::LARGE;
use super::negotiate::MEDIA;
pub(crate) use crate::decode::Kind;
use crate::decode::{self, Decoded};
use crate::failure::Failure;

/// The largest body that is read: twice what a real server's storage takes, as its own limit is.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How long a client may take to send a body: as long as a real server gives a whole request.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request but for its address.
pub(crate) struct Input {
    pub(crate) headers: HeaderMap,
    /// What the connection has to offer beside the request.
    pub(crate) extensions: Extensions,
    pub(crate) content: Content,
}

/// What was sent.
pub(crate) enum Content {
    Unread(Body),
    /// Read before it is known whether anybody wants it, or why it was not.
    Read(Result<Bytes, Failure>),
}

impl Content {
    /// Reads what may be large, so that it is known how large it is.
    pub(crate) async fn measured(self) -> (Self, usize) {
        match self {
            Self::Unread(body) if body.size_hint().exact().is_none_or(|size| size > LARGE as u64) => {
                let read = read(body).await;
                let size = read.as_ref().map_or(0, Bytes::len);
                (Self::Read(read), size)
            }
            Self::Unread(body) => {
                let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
                (Self::Unread(body), size.unwrap_or_default())
            }
            Self::Read(read) => {
                let size = read.as_ref().map_or(0, Bytes::len);
                (Self::Read(read), size)
            }
        }
    }
}

/// A whole body, if it is not too long and does not take too long.
async fn read(body: Body) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, LIMIT).collect()).await;
    match collected.map_err(|_| Failure::slow_body(PATIENCE))? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(Failure::too_large(LIMIT)),
        Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
    }
}

impl Input {
    /// The media type without its parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub(crate) async fn bytes(self) -> Result<Bytes, Failure> {
        match self.content {
            Content::Unread(body) => read(body).await,
            Content::Read(read) => read,
        }
    }

    /// An object of a kind, with what there is to say about it.
    pub(crate) async fn decode(self, kind: Kind<'_>) -> Result<Decoded, Failure> {
        let media_type = self.media_type();
        check_media(kind, &media_type)?;
        let bytes = self.bytes().await?;
        parse(&bytes, &media_type, kind)
    }

    /// An object of a kind about which nobody is told anything.
    pub(crate) async fn object(self, kind: Kind<'_>) -> Result<Value, Failure> {
        self.decode(kind).await.map(|decoded| decoded.object)
    }

    /// An object that may be left out.
    pub(crate) async fn optional(self, kind: Kind<'_>) -> Result<Option<Value>, Failure> {
        let media_type = self.media_type();
        let bytes = self.bytes().await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        check_media(kind, &media_type)?;
        parse(&bytes, &media_type, kind).map(|decoded| Some(decoded.object))
    }
}

/// Refuses what cannot be read, before it is read.
fn check_media(kind: Kind<'_>, media_type: &str) -> Result<(), Failure> {
    match media_type {
        "" | "application/json" | "application/yaml" => Ok(()),
        PROTOBUF if kind.message.is_some() => Ok(()),
        _ => Err(Failure::unsupported_media(MEDIA)),
    }
}

fn parse(bytes: &[u8], media_type: &str, kind: Kind<'_>) -> Result<Decoded, Failure> {
    match (media_type, kind.message) {
        ("application/yaml", _) => decode::yaml(bytes, kind),
        (PROTOBUF, Some(message)) => decode::protobuf(bytes, message, kind),
        _ => decode::json(bytes, kind),
    }
}
