//! Kubernetes' protobuf: an envelope that names the type, around a message of that type.
//!
//! What is stored stays JSON. A client that asks for protobuf pays for the conversion, nobody else does.

mod decode;
mod encode;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use bytes::Bytes;
use serde_json::{Map, Value};

pub(crate) use self::reader::Malformed;
use self::reader::{Content, Reader};
use self::writer::Writer;
use crate::types::{self, Message};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A body taken out of its envelope, not yet decoded.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    content: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens an envelope.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Err(Malformed::Other("empty data".into()));
        }
        let Some(body) = bytes.strip_prefix(MAGIC) else {
            let why = format!(
                "provided data does not appear to be a protobuf message, expected prefix [{}]",
                MAGIC.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
            );
            return Err(Malformed::Other(why));
        };
        if body.is_empty() {
            return Err(Malformed::Other("empty body".into()));
        }
        let mut envelope = Self { api_version: String::new(), kind: String::new(), content: &[] };
        let mut reader = Reader::new(body, "Unknown");
        while let Some((number, wire)) = reader.tag()? {
            match (number, reader.content(wire)?) {
                (1, Content::Bytes(type_meta)) => envelope.read_type(type_meta)?,
                (2, Content::Bytes(content)) => envelope.content = content,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes, "TypeMeta");
        while let Some((number, wire)) = reader.tag()? {
            match (number, reader.content(wire)?) {
                (1, Content::Bytes(bytes)) => self.api_version = String::from_utf8_lossy(bytes).into_owned(),
                (2, Content::Bytes(bytes)) => self.kind = String::from_utf8_lossy(bytes).into_owned(),
                _ => {}
            }
        }
        Ok(())
    }

    /// The object, of a type.
    pub(crate) fn decode(&self, table: &'static Message) -> Result<Map<String, Value>, Malformed> {
        decode::message(table, self.content)
    }
}

/// An object's message, without an envelope: an item of a list.
pub(crate) fn message(table: &'static Message, object: &Value) -> Vec<u8> {
    object.as_object().map(|object| encode::message(table, object)).unwrap_or_default()
}

/// A message in its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(4, &[]);
    writer.bytes(3, &[]);
    writer.bytes(2, message);
    writer.nested(1, |writer| {
        writer.bytes(2, kind.as_bytes());
        writer.bytes(1, api_version.as_bytes());
    });
    writer.raw(MAGIC);
    writer.finish()
}

/// An object of a built-in kind in its envelope. Nothing when it is of another kind.
pub(crate) fn object(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let table = table_of(api_version, kind)?;
    Some(envelope(api_version, kind, &message(table, object)))
}

/// The type that an object names. Some that belong to all groups name an older version of theirs, or `v1`.
fn table_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let common = group == "meta.k8s.io" || (group.is_empty() && ["v1", ""].contains(&version));
    types::of(group, version, kind).or_else(|| types::of("meta.k8s.io", "v1", kind).filter(|_| common))
}

/// The type of the items of a list.
pub(crate) fn item_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    table_of(api_version, kind)?.field("items")?.message()
}

/// A list in its envelope, from its metadata and the messages of its items.
pub(crate) fn list(api_version: &str, kind: &str, metadata: &Value, items: &[Vec<u8>]) -> Option<Vec<u8>> {
    let table = table_of(api_version, kind)?;
    let mut writer = Writer::default();
    for item in items.iter().rev() {
        writer.bytes(2, item);
    }
    let head = Map::from_iter([("metadata".to_owned(), metadata.clone())]);
    writer.raw(&encode::message(table, &head));
    Some(envelope(api_version, kind, &writer.finish()))
}

/// One event of a watch: its length, and a message with the object's envelope inside.
pub(crate) fn frame(kind: &str, envelope: &[u8]) -> Bytes {
    let mut writer = Writer::default();
    writer.nested(2, |writer| writer.bytes(1, envelope));
    writer.bytes(1, kind.as_bytes());
    let event = writer.finish();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes();
    [length.as_slice(), &event].concat().into()
}
