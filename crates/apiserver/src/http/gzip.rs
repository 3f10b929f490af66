//! Large answers, compressed for clients that ask for it.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use http_body_util::BodyExt;
use std::io::Write;

use crate::serve::Endless;

/// Smaller answers are sent as they are: compressing them takes longer than sending them.
const THRESHOLD: u64 = 128 * 1024;
/// How much is compressed at a time: little enough that other requests do not wait for it.
const STEP: usize = 64 * 1024;
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Whether a client takes compressed answers.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| coding.trim() == "gzip")
}

/// Compresses an answer that is worth it. What is still being made, such as a watch, has no size and is left alone.
pub(crate) async fn answer(response: Response) -> Response {
    let large = response.body().size_hint().exact().is_some_and(|size| size > THRESHOLD);
    let endless = response.extensions().get::<Endless>().is_some();
    if !large || endless || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        return Response::from_parts(parts, Body::empty());
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, GZIP);
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, compressed(body.to_bytes()))
}

/// The compressed bytes, made as the client reads them.
fn compressed(bytes: Bytes) -> Body {
    // The fastest level: most of what there is to win, for the least work.
    let encoder = GzEncoder::new(Vec::with_capacity(STEP), Compression::fast());
    Body::from_stream(stream::unfold(Some((bytes, encoder)), |state| async {
        let (mut rest, mut encoder) = state?;
        loop {
            let step = rest.split_to(rest.len().min(STEP));
            if step.is_empty() {
                return Some((encoder.finish().map(Bytes::from), None));
            }
            if let Err(error) = encoder.write_all(&step) {
                return Some((Err(error), None));
            }
            let made = std::mem::take(encoder.get_mut());
            if !made.is_empty() {
                return Some((Ok(Bytes::from(made)), Some((rest, encoder))));
            }
            tokio::task::yield_now().await;
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    async fn sent(text: &str) -> (HeaderMap, Bytes) {
        let response = answer(Response::new(Body::from(text.to_owned()))).await;
        let (parts, body) = response.into_parts();
        (parts.headers, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn only_large_answers_are_compressed() {
        let small = "x".repeat(128 * 1024);
        let (headers, bytes) = sent(&small).await;
        assert!(headers.is_empty() && bytes == small);
        let large: String = (0..100_000).map(|number| format!("{number},")).collect();
        let (headers, bytes) = sent(&large).await;
        assert_eq!(headers[CONTENT_ENCODING], "gzip");
        assert!(bytes.len() < large.len());
        let mut back = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut back).unwrap();
        assert!(back == large);
    }

    #[tokio::test]
    async fn streams_are_left_alone() {
        let mut response = Response::new(Body::from("x".repeat(200_000)));
        response.extensions_mut().insert(Endless);
        assert!(answer(response).await.headers().is_empty());
    }

    #[test]
    fn a_client_asks_for_it() {
        for (header, expected) in
            [("gzip", true), ("deflate, gzip", true), ("br", false), ("gzip;q=0", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, header.parse().unwrap());
            assert_eq!(is_accepted(&headers), expected, "{header}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
