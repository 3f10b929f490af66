//! What the store asks of durable storage.

use bytes::Bytes;

/// One object write, already decided: the store assigned its revision and serialised it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The revision this write creates. Strictly increasing in the order of commits.
    pub revision: u64,
    /// `group/resource/namespace/name`; unique per object.
    pub key: String,
    /// The stored JSON, or nothing when the object is removed.
    pub value: Option<Bytes>,
}

/// Everything a backend knew when it was opened.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The last committed revision, also when the object that had it is gone.
    pub revision: u64,
    /// Every live object: key, revision of its last write, stored JSON.
    pub objects: Vec<(String, u64, Bytes)>,
}

/// Why a write could not be made durable.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The data directory belongs to a newer format than this binary reads.
    #[error(
        "the data directory has format version {found}, this binary reads up to {known}: use a newer trainyard"
    )]
    Newer {
        /// Version in the directory.
        found: u64,
        /// Newest version this binary reads.
        known: u64,
    },
    /// The storage itself failed; nothing of the batch was committed.
    #[error("storage failed: {0}")]
    Storage(String),
}

/// Durable storage under the store.
///
/// `commit` is called from one thread at a time with writes in revision order, and returns only when all of them
/// would survive a crash. A failed commit leaves none of them behind. The caller groups concurrent writes into one
/// call (group commit), so an implementation makes one transaction of each call.
pub trait Backend: Send + Sync + 'static {
    /// Reads everything at start.
    fn load(&self) -> Result<Loaded, BackendError>;
    /// Makes a batch durable, all or nothing. May block.
    fn commit(&self, batch: &[Write]) -> Result<(), BackendError>;
    /// False when `commit` is free (memory), so that the store need not leave the async thread for it.
    fn blocks(&self) -> bool;
}
