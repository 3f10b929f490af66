//! Streams into pods: exec, attach and port-forward.
//!
//! The server knows the wire (WebSocket and SPDY/3.1, the subprotocols of both); whoever has the processes implements
//! [`PodStreams`] over plain byte streams, and is told nothing of the rest. Between the two are pipes of a fixed size,
//! so that a slow client slows the process down instead of filling memory.

pub(crate) mod channels;
pub(crate) mod pipes;
pub(crate) mod resize;
pub mod spdy;
pub(crate) mod spdy_exec;
pub(crate) mod spdy_forward;
pub(crate) mod status;
pub(crate) mod tunnel;
pub(crate) mod upgrade;
pub(crate) mod ws_exec;
pub(crate) mod ws_forward;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// A connection on which nothing happens for so long is closed, as a kubelet does it.
pub(crate) const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// A client has to open the streams it asked for within this time, as with a kubelet.
pub(crate) const CREATION: Duration = Duration::from_secs(30);
/// After the last word, what the client still sends is read for at most so long: closing a connection with something
/// unread makes the client's system throw away what it has not read either.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// A peer that vanished without a word is noticed by writing to it.
pub(crate) const PING: Duration = Duration::from_secs(30);
/// Streaming connections at once. Each may hold a message of the largest size, and a process.
pub(crate) const CONNECTIONS: usize = 512;
/// And how many of them one client may have.
pub(crate) const CONNECTIONS_OF_ONE: u64 = 128;

/// What a process reads.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where a process writes.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a forwarded port.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Who runs processes for pods: the node.
///
/// A future that is dropped means that the client went away: what it started for this client ends.
pub trait PodStreams: Send + Sync + 'static {
    /// Whether something can be run there now. Asked before the connection is taken over, for an answer in HTTP is one
    /// that every client shows. Without a container the pod itself is meant. Asked on a thread that may block.
    fn check(&self, place: &Place) -> Result<(), StreamError>;

    /// Runs a command in a container; its exit code. Everything it wrote has been handed over by then.
    fn exec(
        &self,
        place: Place,
        command: Vec<String>,
        streams: Streams,
    ) -> BoxFuture<'static, Result<i32, StreamError>>;

    /// Joins the program of a container until it ends, or the client does.
    fn attach(&self, place: Place, streams: Streams) -> BoxFuture<'static, Result<(), StreamError>>;

    /// Connects to a port as the pod sees it.
    fn connect(
        &self,
        place: Place,
        port: u16,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>, StreamError>>;
}

/// A container of a pod, or the pod.
#[derive(Clone, Debug)]
pub struct Place {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod as it is stored.
    pub pod: Arc<Value>,
    /// The container, which is one of the pod's; empty when the pod itself is meant.
    pub container: String,
}

/// What a process is connected to. What was not asked for is not there.
pub struct Streams {
    /// Ends when the client closes it.
    pub stdin: Option<Input>,
    /// To be dropped when there is nothing more to come.
    pub stdout: Option<Output>,
    /// Never there with a terminal, which has one output only.
    pub stderr: Option<Output>,
    /// Whether the client wants a terminal.
    pub tty: bool,
    /// How large the client's terminal is, each time it changes.
    pub sizes: mpsc::Receiver<Size>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stdin, stdout, stderr, tty, sizes: _ } = self;
        let there = [stdin.is_some(), stdout.is_some(), stderr.is_some()];
        f.debug_struct("Streams").field("there", &there).field("tty", tty).finish_non_exhaustive()
    }
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// Why a stream could not be had; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

/// Which of a process's streams a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

/// What a client joins: a command of its own, or the container's program. Its result is what the client is told.
pub(crate) type Job = BoxFuture<'static, status::Outcome>;
