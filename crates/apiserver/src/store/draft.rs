//! An object as text, but for its revision: made before it is known which revision it will be, and so without the lock
//! that gives revisions.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::io;

/// Enough for most pods, so that their text is written in one piece.
const ROOM: usize = 4096;
const VERSION: &str = "resourceVersion";
/// What comes first, as a real server writes it: then a list of one kind leaves the types out by cutting.
const TYPE: [&str; 2] = ["kind", "apiVersion"];

/// A version of an object that waits for its revision.
#[derive(Clone, Debug)]
pub struct Draft {
    text: Vec<u8>,
    /// Where the revision belongs; an object without metadata has no place for it.
    hole: Option<usize>,
    pub(super) api_version: String,
    pub(super) facts: Facts,
}

/// The parts of the metadata that are asked for without parsing.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) uid: Box<str>,
    pub(super) owners: Box<[Box<str>]>,
    pub(super) deleting: bool,
}

impl Facts {
    pub(super) fn of(object: &Value) -> Self {
        let Some(metadata) = object.get("metadata") else {
            return Self::default();
        };
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(Box::from);
        Self {
            uid: text(metadata, "uid").unwrap_or_default(),
            owners: metadata
                .get("ownerReferences")
                .and_then(Value::as_array)
                .map(|refs| refs.iter().filter_map(|r| text(r, "uid")).collect())
                .unwrap_or_default(),
            deleting: metadata.get("deletionTimestamp").is_some_and(|t| !t.is_null()),
        }
    }
}

impl Draft {
    /// Writes an object. The revision it names, if any, is left out.
    pub fn of(object: &Value) -> Result<Self, serde_json::Error> {
        let (mut text, count, hole) = (Vec::with_capacity(ROOM), Cell::new(0), Cell::new(None));
        let versioned = Versioned { count: &count, hole: &hole };
        serde_json::to_writer(
            Counted { out: &mut text, count: &count },
            &Ordered { object, versioned: Some(versioned) },
        )?;
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { text, hole: hole.get(), api_version, facts: Facts::of(object) })
    }

    /// The text between `opening` and `closing`, with its revision.
    pub(super) fn finish(&self, opening: &[u8], revision: u64, closing: &[u8]) -> Vec<u8> {
        let revision = revision.to_string();
        let room = opening.len() + self.text.len() + revision.len() + closing.len();
        let mut line = Vec::with_capacity(room);
        line.extend_from_slice(opening);
        match self.hole.and_then(|hole| self.text.split_at_checked(hole)) {
            Some((before, after)) => {
                line.extend_from_slice(before);
                line.extend_from_slice(revision.as_bytes());
                line.extend_from_slice(after);
            }
            None => line.extend_from_slice(&self.text),
        }
        line.extend_from_slice(closing);
        line
    }
}

/// Knows how much was written through it.
struct Counted<'a> {
    out: &'a mut Vec<u8>,
    count: &'a Cell<usize>,
}

impl io::Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.extend_from_slice(bytes);
        self.count.set(self.out.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where the place of the revision is noted.
#[derive(Clone, Copy)]
struct Versioned<'a> {
    count: &'a Cell<usize>,
    hole: &'a Cell<Option<usize>>,
}

/// An object with its type in front.
pub(super) struct Ordered<'a> {
    object: &'a Value,
    versioned: Option<Versioned<'a>>,
}

impl<'a> Ordered<'a> {
    /// Just as it is.
    pub(super) fn plain(object: &'a Value) -> Self {
        Self { object, versioned: None }
    }
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(map) = self.object else { return self.object.serialize(serializer) };
        let mut out = serializer.serialize_map(Some(map.len()))?;
        for field in TYPE {
            if let Some(value) = map.get(field) {
                out.serialize_entry(field, value)?;
            }
        }
        for (field, value) in map.iter().filter(|(field, _)| !TYPE.contains(&field.as_str())) {
            match (self.versioned, value) {
                (Some(versioned), Value::Object(metadata)) if field == "metadata" => {
                    out.serialize_entry(field, &Metadata { metadata, versioned })?;
                }
                _ => out.serialize_entry(field, value)?,
            }
        }
        out.end()
    }
}

/// Metadata with an empty text for its revision, in its place.
struct Metadata<'a> {
    metadata: &'a Map<String, Value>,
    versioned: Versioned<'a>,
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        let (before, after): (Vec<_>, Vec<_>) = self
            .metadata
            .iter()
            .filter(|(field, _)| *field != VERSION)
            .partition(|(field, _)| field.as_str() < VERSION);
        for (field, value) in before {
            out.serialize_entry(field, value)?;
        }
        out.serialize_entry(VERSION, "")?;
        // Between the quotes that were just written.
        self.versioned.hole.set(self.versioned.count.get().checked_sub(1));
        for (field, value) in after {
            out.serialize_entry(field, value)?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_revision_comes_where_it_belongs() {
        for (object, expected) in [
            (
                json!({"spec": {}, "metadata": {"name": "a", "uid": "u", "resourceVersion": "3"}, "kind": "K", "apiVersion": "v"}),
                r#"<{"kind":"K","apiVersion":"v","metadata":{"name":"a","resourceVersion":"17","uid":"u"},"spec":{}}>"#,
            ),
            (
                json!({"metadata": {"annotations": {"x": "\"resourceVersion\":\"\"", "é": "ü"}}}),
                "<{\"metadata\":{\"annotations\":{\"x\":\"\\\"resourceVersion\\\":\\\"\\\"\",\"é\":\"ü\"},\"resourceVersion\":\"17\"}}>",
            ),
            (json!({"metadata": {}}), r#"<{"metadata":{"resourceVersion":"17"}}>"#),
            (json!({"data": 1}), r#"<{"data":1}>"#),
            (json!([1]), "<[1]>"),
        ] {
            let line = Draft::of(&object).unwrap().finish(b"<", 17, b">");
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
