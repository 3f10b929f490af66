//! One version of one object as it is kept: serialised, with the few facts that are asked for without parsing.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

use super::draft::{Draft, Facts, Ordered};
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

/// Makes of a draft the event it is.
pub(super) fn event(
    kind: EventKind,
    key: &Key,
    revision: u64,
    draft: &Draft,
    api_version: Arc<str>,
    previous: Option<Arc<Stored>>,
) -> Event {
    let opening = kind.opening();
    let line = Bytes::from(draft.finish(opening, revision, b"}\n"));
    let bytes = line.slice(opening.len()..line.len().saturating_sub(2));
    let Facts { uid, owners, deleting } = draft.facts.clone();
    let stored = Stored { key: key.clone(), revision, bytes, api_version, uid, owners, deleting };
    Event { kind, object: Arc::new(stored), previous, line }
}

/// Whether a text has another in it.
pub(crate) fn contains(text: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(text, wanted).is_some()
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
        let bytes = Bytes::from(serde_json::to_vec(&Ordered::plain(object))?);
        load(key.clone(), 0, bytes)
    }
}
