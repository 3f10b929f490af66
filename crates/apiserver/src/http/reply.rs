//! Responses.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER, VARY, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;

use super::encode;
use super::negotiate::Encoding;
use crate::discovery::Answer;
use crate::failure::Failure;
use crate::object::{meta, set_meta};
use crate::registry::Served;
use crate::store::Stored;
use crate::tables::{self, View};
use crate::wire;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// What the API answers is for who asked, now.
const PRIVATE: HeaderValue = HeaderValue::from_static("no-cache, private");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// What an object is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Render {
    /// Itself.
    Object,
    /// Its metadata alone, of this API version.
    Metadata(&'static str),
    /// A row of a table.
    Table(View),
}

impl Render {
    /// The same at another moment.
    pub(crate) fn at(self, now: Timestamp) -> Self {
        match self {
            Self::Table(view) => Self::Table(View { now, ..view }),
            other => other,
        }
    }

    /// The same for a client that knows the columns.
    pub(crate) fn without_headers(self) -> Self {
        match self {
            Self::Table(view) => Self::Table(View { headers: false, ..view }),
            other => other,
        }
    }
}

/// The text of a stored object in the version and form a client asked for.
pub(crate) fn text(served: &Served, stored: &Stored, render: Render) -> Result<Bytes, Failure> {
    if is_verbatim(served, stored, render) {
        return Ok(stored.bytes.clone());
    }
    if let Render::Table(view) = render {
        return tables::single(served, stored, view);
    }
    shown(served, stored.value().map_err(Failure::internal)?, None, render)
}

/// Whether the stored text is what the client asked for.
pub(crate) fn is_verbatim(served: &Served, stored: &Stored, render: Render) -> bool {
    render == Render::Object && served.is_stored_form(stored)
}

/// The text of an object in its stored form, in the form a client asked for, as of another revision if one is given.
pub(crate) fn shown(
    served: &Served,
    mut object: Value,
    revision: Option<u64>,
    render: Render,
) -> Result<Bytes, Failure> {
    if let Render::Table(view) = render {
        return tables::single_of(served, object, revision, view);
    }
    served.present(&mut object);
    if let Some(revision) = revision {
        set_meta(&mut object, "resourceVersion", revision.to_string());
    }
    match render {
        Render::Object | Render::Table(_) => serialise(&object),
        Render::Metadata(api_version) => serialise(&tables::partial(&mut object, api_version)),
    }
}

pub(crate) fn serialise(value: &Value) -> Result<Bytes, Failure> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Failure::internal)
}

fn respond(code: u16, content: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, content);
    response.headers_mut().insert(CACHE_CONTROL, PRIVATE);
    response
}

/// A page for people. A browser has to take it as the text it is.
fn page(code: u16, body: impl Into<Body>) -> Response {
    let mut response = respond(code, TEXT, body);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A set of public keys.
pub(crate) fn keys(body: impl Into<Body>) -> Response {
    respond(200, HeaderValue::from_static("application/jwk-set+json"), body)
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
    warn(&mut response, warnings);
    Ok(response)
}

/// What all warnings together may have, and one of them if there are more, in characters: as a real server does it, and
/// headers hold no more.
const WARNINGS: usize = 4 << 10;
const WARNING_CUT: usize = 256;

/// Warnings that fit into a response, each told once. If they are too many, long ones are cut and late ones left out.
fn fitting<T: AsRef<str>>(warnings: &[T]) -> Vec<&str> {
    let mut seen = HashSet::new();
    let told = || warnings.iter().map(AsRef::as_ref).filter(|warning: &&str| !warning.is_empty());
    let all: usize = told().filter(|warning| seen.insert(*warning)).map(|text| text.chars().count()).sum();
    let mut seen = HashSet::new();
    let (mut written, mut fit) = (0, Vec::new());
    for warning in told() {
        if written >= WARNINGS {
            break;
        }
        if !seen.insert(warning) {
            continue;
        }
        let end = warning.char_indices().nth(WARNING_CUT).filter(|_| all > WARNINGS).map(|(at, _)| at);
        let warning = end.and_then(|end| warning.get(..end)).unwrap_or(warning);
        written += warning.chars().count();
        fit.push(warning);
    }
    fit
}

/// Adds warnings to a response.
pub(crate) fn warn<T: AsRef<str>>(response: &mut Response, warnings: &[T]) {
    for warning in fitting(warnings) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// A whole list: the items' texts are copied as they are, unless the client wants another form.
pub(crate) fn list(
    (api_version, kind): (&str, &str),
    metadata: &Value,
    items: &[Bytes],
    encoding: Encoding,
) -> Result<Response, Failure> {
    if encoding == Encoding::Protobuf {
        // One by one: a long list in parsed form would take many times its size.
        let parsed = |item: &Bytes| serde_json::from_slice::<Value>(item).map_err(Failure::internal);
        let table = wire::item_of(api_version, kind).ok_or_else(|| Failure::internal("no such message"))?;
        let messages: Result<Vec<Vec<u8>>, Failure> =
            items.iter().map(|item| Ok(wire::message(table, &parsed(item)?))).collect();
        let body = wire::list(api_version, kind, metadata, &messages?);
        return Ok(respond(200, encode::PROTOBUF, body.unwrap_or_default()));
    }
    let size = items.iter().map(|i| i.len() + 1).sum::<usize>() + 256;
    let mut body = BytesMut::with_capacity(size);
    let head = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let head = serialise(&head)?;
    body.put_slice(head.strip_suffix(b"}").unwrap_or(&head));
    // A real server makes this list by appending to none.
    if kind == "PartialObjectMetadataList" && items.is_empty() {
        body.put_slice(b",\"items\":null}");
        return Ok(json(200, body.freeze()));
    }
    body.put_slice(b",\"items\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        // An item without its type was cut off behind it.
        if !item.starts_with(b"{") {
            body.put_u8(b'{');
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
    warn(&mut response, failure.warnings());
    response
}

/// The answer to somebody who may not: it repeats what they sent, so nobody is to guess that it is a page.
pub(crate) fn refusal(refused: &Failure) -> Response {
    let mut response = failure(refused);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
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

/// JSON that a real server takes for text.
pub(crate) fn text_json(body: String) -> Response {
    respond(200, TEXT, body)
}

pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// What a path that addresses nothing is answered with.
pub(crate) fn no_such_page() -> Response {
    page(404, "404 page not found\n")
}

pub(crate) fn discovery(answer: Answer) -> Response {
    match answer {
        Answer::Json(value) => json(200, value.to_string()),
        Answer::Well => respond(200, TEXT, "ok"),
        Answer::Health { well, text } => page(if well { 200 } else { 500 }, text),
        Answer::Aggregated { etag, body } => tagged(respond(200, AGGREGATED, body), &etag),
        Answer::Unchanged { etag } => tagged(empty(StatusCode::NOT_MODIFIED), &etag),
    }
}

/// Lets clients keep a document until its tag changes.
fn tagged(mut response: Response, etag: &str) -> Response {
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_into_headers() {
        let told = |warnings: &[String]| {
            let mut response = empty(StatusCode::OK);
            warn(&mut response, warnings);
            response.headers().get_all(WARNING).iter().map(|value| value.len()).collect::<Vec<_>>()
        };
        let long = "x".repeat(1000);
        assert_eq!(told(&["a".into(), "a".into(), String::new(), "b".into()]).len(), 2);
        assert_eq!(told(&[long.clone(), "b".into()]), [1008, 9]);
        let many: Vec<String> = (0..100_000).map(|n| format!("{n} {long}")).collect();
        assert_eq!(told(&many), [264; 16]);
    }
}
