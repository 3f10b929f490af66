//! Commands in this node's containers, and the ports of its pods.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::files::blocking;
use crate::runtime::{Instance, RuntimeError, Streams};
use crate::shared::Shared;

/// Reaches into pods.
#[derive(Clone)]
pub struct NodeStreams {
    shared: Arc<Shared>,
}

impl NodeStreams {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The directory of a container's run, while it is up. It reads files: for threads that may block.
    pub fn find(&self, uid: &str, container: &str) -> Option<PathBuf> {
        let number = self.shared.disk.runs(uid, container).ok()?.last().copied()?;
        let dir = self.shared.disk.run(uid, container, number);
        matches!(self.shared.runtime.look(&dir), Ok(Instance::Running { .. })).then_some(dir)
    }

    async fn found(&self, uid: &str, container: &str) -> Result<PathBuf, RuntimeError> {
        let (own, uid, container) = (self.clone(), uid.to_owned(), container.to_owned());
        blocking(move || own.find(&uid, &container)).await.ok_or(RuntimeError::NotRunning)
    }

    /// Runs a command in a container; its exit code.
    ///
    /// # Errors
    /// When the container does not run, or the command cannot be started.
    pub async fn exec(
        &self,
        uid: &str,
        container: &str,
        command: &[String],
        streams: Streams,
    ) -> Result<i32, RuntimeError> {
        let dir = self.found(uid, container).await?;
        self.shared.runtime.run(&dir, command, streams).await
    }

    /// Joins the program of a container: its output from now on, and its input if it has one. Returns when it ends.
    ///
    /// # Errors
    /// When the container does not run, or its files cannot be read.
    pub async fn attach(&self, uid: &str, container: &str, streams: Streams) -> Result<(), RuntimeError> {
        let dir = self.found(uid, container).await?;
        self.shared.runtime.attach(&dir, streams).await
    }

    /// Connects to a port as a pod sees it: containers are processes of this machine, in its network.
    ///
    /// # Errors
    /// When nobody listens there, in the words of a container runtime.
    pub async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let four = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let six = match TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        Err(format!(
            "failed to connect to localhost:{port} inside namespace \"host\", IPv4: dial tcp4 127.0.0.1:{port}: \
             connect: {} IPv6 dial tcp6: [::1]:{port}: connect: {}",
            words(&four),
            words(&six)
        ))
    }
}

/// What went wrong, as a container runtime says it.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    }
}
