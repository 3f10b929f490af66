//! One version of one object as it is kept: serialised, with the few facts that are asked for without parsing.

use bytes::{BufMut, Bytes, BytesMut};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;

use super::key::Key;

/// What happened to an object; the names are those of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It exists from this revision on.
    Added,
    /// It was replaced.
    Modified,
    /// It is gone; the object is its last state with the revision of the removal.
    Deleted,
}

impl EventKind {
    /// What a watch calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// The opening of a watch line, up to the object.
    fn opening(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }

    /// A whole watch line around an object.
    pub fn line(self, object: &[u8]) -> Bytes {
        let mut line = BytesMut::with_capacity(object.len() + 34);
        line.put_slice(self.opening());
        line.put_slice(object);
        line.put_slice(b"}\n");
        line.freeze()
    }
}

/// An object version. Parsed JSON takes ten times the memory of its text, so only the text is kept.
#[derive(Debug)]
pub struct Stored {
    /// Where it lives.
    pub key: Key,
    /// The revision that wrote it; also in the text as `metadata.resourceVersion`.
    pub revision: u64,
    /// The JSON text.
    pub bytes: Bytes,
    /// The `apiVersion` in the text: a reader of this version takes the text as it is.
    pub api_version: Arc<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// The uids in `metadata.ownerReferences`: what garbage collection indexes.
    pub owners: Box<[Box<str>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl Stored {
    /// The parsed object.
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    /// The labels alone; reading past the rest of the text is far cheaper than building it.
    pub fn labels(&self) -> Option<Map<String, Value>> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            labels: Option<Map<String, Value>>,
        }
        serde_json::from_slice::<Object>(&self.bytes).ok()?.metadata.labels
    }
}

/// One entry of a table's history.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The object after it (before it, for a removal).
    pub object: Arc<Stored>,
    /// The version it replaced: lets a selecting watcher see objects enter and leave its selection, and lets a
    /// list be answered at an older revision.
    pub previous: Option<Arc<Stored>>,
    /// The watch line. `object.bytes` is a slice of it, so one allocation serves store, reads and all watchers.
    pub line: Bytes,
}

/// The parts of the metadata that [`Stored`] keeps.
#[derive(Default)]
struct Facts {
    uid: Box<str>,
    owners: Box<[Box<str>]>,
    deleting: bool,
}

impl Facts {
    fn of(object: &Value) -> Self {
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

/// An object with its type in front, as a real server writes it: then a list of one kind leaves the types out by cutting.
struct Ordered<'a>(&'a Value);

const TYPE: [&str; 2] = ["kind", "apiVersion"];

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(map) = self.0 else { return self.0.serialize(serializer) };
        let mut out = serializer.serialize_map(Some(map.len()))?;
        for field in TYPE {
            if let Some(value) = map.get(field) {
                out.serialize_entry(field, value)?;
            }
        }
        for (field, value) in map.iter().filter(|(field, _)| !TYPE.contains(&field.as_str())) {
            out.serialize_entry(field, value)?;
        }
        out.end()
    }
}

/// Stamps the revision into an object and serialises it as the event it is.
pub(super) fn event(
    kind: EventKind,
    key: &Key,
    revision: u64,
    mut object: Value,
    api_version: Arc<str>,
    previous: Option<Arc<Stored>>,
) -> Result<Event, serde_json::Error> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), Value::String(revision.to_string()));
    }
    let opening = kind.opening();
    let mut line = Vec::with_capacity(previous.as_ref().map_or(1024, |p| p.bytes.len() + 256));
    line.extend_from_slice(opening);
    serde_json::to_writer(&mut line, &Ordered(&object))?;
    let end = line.len();
    line.extend_from_slice(b"}\n");
    line.shrink_to_fit();
    let line = Bytes::from(line);
    let Facts { uid, owners, deleting } = Facts::of(&object);
    let bytes = line.slice(opening.len()..end);
    let stored = Stored { key: key.clone(), revision, bytes, api_version, uid, owners, deleting };
    Ok(Event { kind, object: Arc::new(stored), previous, line })
}

/// Reads back what a backend kept.
pub(super) fn load(key: Key, revision: u64, bytes: Bytes) -> Result<Stored, serde_json::Error> {
    let object: Value = serde_json::from_slice(&bytes)?;
    let Facts { uid, owners, deleting } = Facts::of(&object);
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().into();
    Ok(Stored { key, revision, bytes, api_version, uid, owners, deleting })
}

impl Stored {
    /// An object as it would be stored, for a dry run. It has no revision.
    pub(crate) fn rehearsed(key: &Key, object: &Value) -> Result<Self, serde_json::Error> {
        let bytes = Bytes::from(serde_json::to_vec(&Ordered(object))?);
        load(key.clone(), 0, bytes)
    }
}
