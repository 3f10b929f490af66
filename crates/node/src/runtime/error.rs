//! What can go wrong with a container, apart from what its program does.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// What can go wrong with a container, apart from what its program does.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// A file of the run is the trouble.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The shim could not be started, or gave up before it had claimed the run. Trying again is safe.
    #[error("no shim could be started: {0}")]
    Shim(#[source] io::Error),
    /// The container does not run, so nothing can be run inside it.
    #[error("the container does not run")]
    NotRunning,
    /// A command could not be started inside the container: why, as a container runtime says it.
    #[error("{0}")]
    CannotRun(String),
    /// A command took too long and was ended.
    #[error("the command took longer than {0:?}")]
    Timeout(Duration),
}

impl RuntimeError {
    /// For `map_err`: says which file it was.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
