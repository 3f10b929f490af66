//! Bodies of answers as values that can be compared: JSON as it is, text as text, protobuf as the tree of its fields.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

/// Every protobuf body of the API starts with this.
const MAGIC: &[u8] = b"k8s\0";

pub(crate) fn read(headers: &HeaderMap, body: &Bytes) -> Value {
    let media = headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
    if let Some(message) = body.strip_prefix(MAGIC) {
        return json!({"protobuf": fields(message).unwrap_or_else(|| json!("not a message"))});
    }
    if media.starts_with("application/json") {
        return serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)));
    }
    if media.starts_with("application/yaml") {
        let text = String::from_utf8_lossy(body);
        return serde_saphyr::from_str(&text).unwrap_or_else(|_| json!(text));
    }
    json!(String::from_utf8_lossy(body))
}

/// A message without its schema: field numbers and values. What reads as text is text, what else reads as a message is
/// one; both servers' bytes are read by the same rule.
fn fields(mut bytes: &[u8]) -> Option<Value> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => json!(varint(&mut bytes)?),
            1 => json!(format!("{:?}", take(&mut bytes, 8)?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                bytes_value(take(&mut bytes, length)?)
            }
            5 => json!(format!("{:?}", take(&mut bytes, 4)?)),
            _ => return None,
        };
        if number == 0 {
            return None;
        }
        found.push(json!({number.to_string(): value}));
    }
    Some(Value::Array(found))
}

fn bytes_value(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).ok();
    match text.filter(|text| text.chars().all(|c| !c.is_control() || c == '\n')) {
        // Nothing tells a version from other text here.
        Some(text) if text.len() > 1 && text.bytes().all(|b| b.is_ascii_digit()) => json!("<number>"),
        Some(text) => json!(text),
        None => fields(bytes).unwrap_or_else(|| json!(format!("{bytes:?}"))),
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[test]
fn protobuf_is_a_tree_of_fields() {
    let body = Bytes::from_static(b"k8s\0\x0a\x04\x0a\x02v1\x10\x96\x01");
    let read = read(&HeaderMap::new(), &body);
    assert_eq!(read, json!({"protobuf": [{"1": [{"1": "v1"}]}, {"2": 150}]}));
}
