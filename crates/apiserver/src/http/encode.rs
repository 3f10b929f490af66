//! Answers in the form a client asked for, made of the JSON they are written in.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde_json::Value;

use super::aside::{Aside, LARGE};
use super::negotiate::Encoding;
use crate::serve::Endless;
use crate::wire;

const JSON: &str = "application/json";
pub(crate) const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// What a watch is written in.
pub(crate) const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");

/// Rewrites an answer that is still JSON. One that nobody asked to be anything else is passed on untouched.
pub(crate) async fn answer(response: Response, encoding: Encoding, aside: &Aside) -> Response {
    let content = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let Some(parameters) = content.and_then(|content| content.strip_prefix(JSON)).map(str::to_owned) else {
        return response;
    };
    if encoding == Encoding::Json || response.extensions().get::<Endless>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body that is not a stream is there already and cannot fail.
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let made = if bytes.len() > LARGE {
        let bytes = bytes.clone();
        aside.run(Box::pin(async move { rewritten(&bytes, encoding) })).await.ok().flatten()
    } else {
        rewritten(&bytes, encoding)
    };
    let (media, bytes) = made.unwrap_or((JSON, bytes));
    if let Ok(content) = HeaderValue::from_str(&format!("{media}{parameters}")) {
        parts.headers.insert(CONTENT_TYPE, content);
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Nothing when it cannot be written so: then JSON is the only form there is.
fn rewritten(bytes: &Bytes, encoding: Encoding) -> Option<(&'static str, Bytes)> {
    let value = || serde_json::from_slice::<Value>(bytes).ok();
    match encoding {
        Encoding::Json => None,
        Encoding::Pretty => Some((JSON, indented(bytes).into())),
        Encoding::Yaml => {
            let options = serde_saphyr::ser_options! { folded_wrap_chars: 100_000 };
            let text = serde_saphyr::to_string_with_options(&value()?, options).ok()?;
            Some(("application/yaml", text.into()))
        }
        Encoding::Protobuf => Some(("application/vnd.kubernetes.protobuf", wire::object(&value()?)?.into())),
    }
}

/// JSON with two spaces for each level, in one pass over the text: a long list is never parsed for this.
fn indented(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut bytes = bytes.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => {
                out.push(byte);
                in_text = true;
            }
            b'{' | b'[' if bytes.peek().is_some_and(|next| *next == byte + 2) => {
                out.push(byte);
                out.extend(bytes.next());
            }
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
                line(&mut out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            byte => out.push(byte),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn indenting_is_what_the_printer_does() {
        let value = json!({"a": [1, {}, [], {"b\"{": "c\\"}], "d": null, "e": {"f": [[]]}, "g": "x: [,]"});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(String::from_utf8(indented(value.to_string().as_bytes())).unwrap(), pretty);
        assert_eq!(String::from_utf8(indented(pretty.as_bytes())).unwrap(), pretty);
    }

    #[tokio::test]
    async fn what_has_no_message_stays_json() {
        let aside = Aside::default();
        let response = super::super::reply::json(200, r#"{"major":"1"}"#);
        let response = answer(response, Encoding::Protobuf, &aside).await;
        assert_eq!(response.headers()[CONTENT_TYPE], JSON);
        let response = super::super::reply::json(404, r#"{"kind":"Status","apiVersion":"v1","code":404}"#);
        let response = answer(response, Encoding::Protobuf, &aside).await;
        assert_eq!(response.headers()[CONTENT_TYPE], PROTOBUF);
        let response = super::super::reply::json(200, r#"{"a":"yes","b":"1"}"#);
        let body =
            answer(response, Encoding::Yaml, &aside).await.into_body().collect().await.unwrap().to_bytes();
        let back: Value = serde_saphyr::from_slice(&body).unwrap();
        assert_eq!(back, json!({"a": "yes", "b": "1"}));
    }
}
