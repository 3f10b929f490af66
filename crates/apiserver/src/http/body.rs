//! Request bodies: bounded, and only in formats that are understood.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::failure::Failure;

/// The largest body that is read: twice what a real server's storage takes, as its own limit is.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

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

    /// An object in JSON or YAML.
    pub(crate) async fn object(self) -> Result<Value, Failure> {
        match self.media_type().as_str() {
            "" | "application/json" => json(&self.bytes().await?),
            "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(&self.bytes().await?),
            _ => Err(Failure::unsupported_media("application/json, application/yaml")),
        }
    }

    /// An object that may be left out.
    pub(crate) async fn optional(self) -> Result<Option<Value>, Failure> {
        let media_type = self.media_type();
        let bytes = self.bytes().await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        match media_type.as_str() {
            "" | "application/json" => json(&bytes).map(Some),
            "application/yaml" => yaml(&bytes).map(Some),
            _ => Err(Failure::unsupported_media("application/json, application/yaml")),
        }
    }
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
