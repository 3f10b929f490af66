//! The OpenAPI documents: which one in which form, and for how long clients may keep it.

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::ToSpan;
use jiff::tz::TimeZone;

use super::negotiate::Encoding;
use super::query::Query;
use super::reply;
use crate::app::App;
use crate::openapi;

/// A page about the types of the API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    V2,
    V3Root,
    V3 { group: String, version: String },
}

pub(crate) fn answer(app: &App, document: &Document, query: &Query, headers: &HeaderMap) -> Response {
    let mut response = page(app, document, query, headers);
    // These documents have forms of their own, and are not for eyes.
    response.extensions_mut().insert(Encoding::Json);
    response
}

fn page(app: &App, document: &Document, query: &Query, headers: &HeaderMap) -> Response {
    match document {
        Document::V3Root => reply::text_json(openapi::root(app).to_string()),
        Document::V2 => serve(headers, openapi::v2_hash(app), &V2, || Some(openapi::v2(app))),
        Document::V3 { group, version } => {
            let Some(hash) = openapi::v3_hash(app, group, version) else {
                return reply::empty(StatusCode::NOT_FOUND);
            };
            let asked = query.get("hash");
            if !asked.is_empty() && asked != hash {
                return moved(group, version, &hash);
            }
            let mut response = serve(headers, hash, &V3, || openapi::v3(app, group, version));
            if !asked.is_empty() && response.status() != StatusCode::NOT_ACCEPTABLE {
                keep_for_ever(app, &mut response);
            }
            response
        }
    }
}

/// The second form of a document.
struct Protobuf {
    asked_for: &'static str,
    /// The same without the sign that a media type must not have.
    sent_as: HeaderValue,
    write: fn(&str) -> Vec<u8>,
}

const V2: Protobuf = Protobuf {
    asked_for: "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    sent_as: HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
    write: openapi::v2_protobuf,
};
const V3: Protobuf = Protobuf {
    asked_for: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    sent_as: HeaderValue::from_static("application/com.github.proto-openapi.spec.v3.v1.0+protobuf"),
    write: openapi::v3_protobuf,
};

/// A document, unless the client has it or cannot read it.
fn serve(
    headers: &HeaderMap,
    hash: String,
    protobuf: &Protobuf,
    document: impl FnOnce() -> Option<String>,
) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let binary =
        accept.split(',').find_map(|clause| match clause.split(';').next().unwrap_or_default().trim() {
            "application/json" | "application/*" | "*/*" | "" => Some(false),
            media if media == protobuf.asked_for || protobuf.sent_as == media => Some(true),
            _ => None,
        });
    let etag = format!("\"{hash}\"");
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|tag| tag.as_bytes() == etag.as_bytes());
    let mut response = match binary {
        None => reply::empty(StatusCode::NOT_ACCEPTABLE),
        Some(_) if known => reply::empty(StatusCode::NOT_MODIFIED),
        Some(binary) => match document() {
            Some(text) if binary => {
                let mut response = reply::json(200, (protobuf.write)(&text));
                response.headers_mut().insert(CONTENT_TYPE, protobuf.sent_as.clone());
                response
            }
            Some(text) => reply::json(200, text),
            None => return reply::empty(StatusCode::NOT_FOUND),
        },
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    if let (Some(_), Ok(etag)) = (binary, HeaderValue::from_str(&etag)) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// The address names a document of another time.
fn moved(group: &str, version: &str, hash: &str) -> Response {
    let place = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(to) = HeaderValue::from_str(&format!("/openapi/v3/{place}?hash={hash}")) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// A document under its own hash never changes.
fn keep_for_ever(app: &App, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    let in_a_year = app.now().to_zoned(TimeZone::UTC).checked_add(1.year());
    let expires = in_a_year.map(|time| time.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
    if let Some(expires) = expires.ok().and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(EXPIRES, expires);
    }
}
