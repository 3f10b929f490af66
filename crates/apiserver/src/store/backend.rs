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
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
    /// The data directory belongs to a newer format than this binary reads.
    #[error(
        "the data directory was written by {writer}, which is newer than this one: it has data format {found}, and \
         trainyard {} reads up to {known}. Start {writer} or later, or choose another data directory; the objects \
         in this one are untouched",
        env!("CARGO_PKG_VERSION")
    )]
    Newer {
        /// Who wrote it, as far as is known: `trainyard 1.2.3`.
        writer: String,
        /// Version in the directory.
        found: u64,
        /// Newest version this binary reads.
        known: u64,
    },
    /// What is stored cannot be relied on. Nothing was changed.
    #[error(
        "the objects in {directory} are damaged: {what}. Nothing was changed. Restore a backup with `trainyard \
         restore`, or start `trainyard up --salvage`: it keeps the damaged files, goes on with every object that can \
         be read, and lists those that cannot"
    )]
    Damaged {
        /// Where the files are.
        directory: String,
        /// What is wrong, and with which file.
        what: String,
    },
    /// There is no space left; nothing of the batch was committed, and the next one may be if space is freed.
    #[error(
        "the data directory {directory} is full ({what}): free some space on its disk, or delete objects that you no \
         longer need; nothing that was acknowledged is lost"
    )]
    Full {
        /// Where the files are.
        directory: String,
        /// Which file found no space, and what the system said.
        what: String,
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
    /// The same for writes that lead to less: it may use space that was set aside for them. Called after `commit` found
    /// none, so that objects can still be deleted when the disk is full.
    ///
    /// # Errors
    /// As `commit`.
    fn commit_from_reserve(&self, batch: &[Write]) -> Result<(), BackendError> {
        self.commit(batch)
    }
    /// False when `commit` is free (memory), so that the store need not leave the async thread for it.
    fn blocks(&self) -> bool;
}
