//! Responses.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::discovery::Answer;
use crate::failure::Failure;
use crate::object::meta;
use crate::registry::Served;
use crate::store::Stored;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What an object is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Render {
    /// Itself.
    Object,
    /// Its metadata alone.
    Metadata,
}

impl Render {
    /// The first media type of the client that is served.
    pub(crate) fn from_accept(headers: &HeaderMap) -> Result<Self, Failure> {
        let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        accept
            .split(',')
            .find_map(Self::from_media)
            .ok_or_else(|| Failure::not_acceptable("application/json"))
    }

    fn from_media(media: &str) -> Option<Self> {
        let mut parts = media.split(';').map(str::trim);
        let known = ["application/json", "application/*", "*/*", ""].contains(&parts.next()?);
        let shown = parts.find_map(|p| p.strip_prefix("as="));
        match shown {
            None => known.then_some(Self::Object),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => known.then_some(Self::Metadata),
            Some(_) => None,
        }
    }
}

/// The text of a stored object in the version and form a client asked for.
pub(crate) fn text(served: &Served, stored: &Stored, render: Render) -> Result<Bytes, Failure> {
    if is_verbatim(served, stored, render) {
        return Ok(stored.bytes.clone());
    }
    let mut object = stored.value().map_err(Failure::internal)?;
    served.present(&mut object);
    serialise(&shown(object, render))
}

/// Whether the stored text is what the client asked for.
pub(crate) fn is_verbatim(served: &Served, stored: &Stored, render: Render) -> bool {
    render == Render::Object && served.is_stored_form(stored)
}

/// An object in the form a client asked for.
pub(crate) fn shown(mut object: Value, render: Render) -> Value {
    match render {
        Render::Object => object,
        Render::Metadata => {
            let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_else(|| json!({}));
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
    }
}

pub(crate) fn serialise(value: &Value) -> Result<Bytes, Failure> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Failure::internal)
}

fn respond(code: u16, content: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}

/// A JSON body.
pub(crate) fn json(code: u16, body: impl Into<Body>) -> Response {
    respond(code, JSON, body)
}

/// An object, with warnings.
pub(crate) fn object(
    code: u16,
    served: &Served,
    stored: &Stored,
    render: Render,
    warnings: &[String],
) -> Result<Response, Failure> {
    let mut response = json(code, text(served, stored, render)?);
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    Ok(response)
}

/// A whole list: the items' texts are copied as they are.
pub(crate) fn list(
    kind: &str,
    api_version: &str,
    metadata: &Value,
    items: &[Bytes],
) -> Result<Response, Failure> {
    let size = items.iter().map(|i| i.len() + 1).sum::<usize>() + 256;
    let mut body = BytesMut::with_capacity(size);
    let head = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let head = serialise(&head)?;
    body.put_slice(head.strip_suffix(b"}").unwrap_or(&head));
    body.put_slice(b",\"items\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(item);
    }
    body.put_slice(b"]}");
    Ok(json(200, body.freeze()))
}

pub(crate) fn failure(failure: &Failure) -> Response {
    let mut response = json(failure.code(), failure.status().to_string());
    if failure.code() == 504 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// "It is done" for a deletion or an action, about an object.
pub(crate) fn success(code: u16, served: &Served, object: &Value) -> Response {
    let mut details =
        json!({"name": meta(object, "name"), "kind": served.plural, "uid": meta(object, "uid")});
    if let (false, Some(map)) = (served.group.is_empty(), details.as_object_mut()) {
        map.insert("group".into(), served.group.as_str().into());
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    json(code, status.to_string())
}

/// A log: text, of which encoding nobody knows.
pub(crate) fn log(body: Body) -> Response {
    respond(200, HeaderValue::from_static("text/plain"), body)
}

pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// What a path that addresses nothing is answered with.
pub(crate) fn no_such_page() -> Response {
    respond(404, TEXT, "404 page not found\n")
}

pub(crate) fn discovery(answer: Answer) -> Response {
    match answer {
        Answer::Text(text) => respond(200, TEXT, text),
        Answer::NotReady(why) => respond(500, TEXT, format!("[-]{why}\nreadyz check failed\n")),
        Answer::Json(value) => json(200, value.to_string()),
    }
}
