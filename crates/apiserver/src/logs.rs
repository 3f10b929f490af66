//! What the server asks of whoever has the logs of pods.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde_json::Value;
use std::io;

/// A log as it is read. An error cuts the response off, so that the client knows it is not whole.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Where logs come from: the node.
pub trait PodLogs: Send + Sync + 'static {
    /// Opens a log. The pod exists, the container is one of its own, and its status says that it has run.
    fn read(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>>;

    /// Whether there is the log of an earlier run that the status of this pod knows nothing of: one of a pod that had its
    /// name before. Asked on a thread that may block.
    fn remembers(&self, _namespace: &str, _pod: &Value, _container: &str) -> bool {
        false
    }
}

/// Which log, and what of it.
#[derive(Clone, Debug)]
pub struct LogRequest {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod as it is stored.
    pub pod: Value,
    /// The container: the one asked for, or the one that is meant when none is.
    pub container: String,
    /// The run before the current one.
    pub previous: bool,
    /// Goes on until the container ends.
    pub follow: bool,
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// At most so many bytes. The server cuts what is too long, so a source may ignore it.
    pub limit_bytes: Option<u64>,
    /// Each line begins with its time.
    pub timestamps: bool,
}

/// Why a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The log that was asked for cannot exist (400).
    #[error("{0}")]
    BadRequest(String),
    /// There is no such log, or no longer (404).
    #[error("{0}")]
    NotFound(String),
    /// It could not be read (500).
    #[error("{0}")]
    Internal(String),
}
