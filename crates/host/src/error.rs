//! Why a host does not start, or does not go on.

use std::path::PathBuf;

use trainyard_apiserver::OpenError;
use trainyard_apiserver::store::backend::BackendError;

/// Why a host does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The objects in the data directory cannot be used.
    #[error("cannot open the data directory")]
    Data(#[from] BackendError),
    /// The data directory cannot be read or written.
    #[error("cannot use {}", .path.display())]
    DataDir {
        /// The directory or the file in it.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Nothing can be written to the data directory.
    #[error("the data directory {} is read-only: make its file system writable (mount -o remount,rw), or choose another directory with --data-dir", .path.display())]
    ReadOnly {
        /// The directory.
        path: PathBuf,
    },
    /// Another control plane uses the data directory.
    #[error("the data directory {} is in use by {}, or choose another directory with --data-dir", .path.display(), user(*.pid, .path))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who uses it.
        pid: Option<u32>,
    },
    /// The data directory is somebody else's.
    #[error("the data directory {} belongs to user {owner}, not to you (user {user}): choose another", .path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// The directory holds something else.
    #[error("the directory {} is not empty and is not a data directory of trainyard; nothing in it was changed: give --data-dir a new or an empty directory, such as {}", .path.display(), .path.join("trainyard").display())]
    NotADataDir {
        /// The directory.
        path: PathBuf,
    },
    /// A newer binary wrote the data directory.
    #[error("the data directory {} has version {found}, written by a newer trainyard; this one knows versions up to {known}: use the newer one, or another directory", .path.display())]
    NewerData {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest this binary knows.
        known: u32,
    },
    /// The version of the data directory cannot be read.
    #[error("{} says {text:?}, which is no version of a data directory: is it one?", .path.display())]
    OddVersion {
        /// The file.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// The socket cannot be used.
    #[error("cannot serve the API on a socket")]
    Socket(#[source] std::io::Error),
    /// The API server does not start.
    #[error("cannot start the API server")]
    Server(#[from] OpenError),
    /// A file cannot be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file is there, and is not what it should be.
    #[error("{} is damaged: {why}. Delete it; a new one is made at the next start", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A backup cannot be used.
    #[error("cannot use the backup {}: {why}. Nothing was changed; use another backup", path.display())]
    BadBackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The operating system gives no random numbers.
    #[error("cannot make a secret")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A kubeconfig cannot be put into words.
    #[error("cannot write a kubeconfig")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Somebody else listens on the port.
    #[error("port {0} on 127.0.0.1 is taken: choose another with --port, or --port 0 for any free one")]
    PortTaken(u16),
    /// A port cannot be used.
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Listen {
        /// The port.
        port: u16,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The port of the webhooks cannot be used.
    #[error(
        "cannot listen on port {port} for webhooks: choose another with --webhook-server-port (and as targetPort of the webhooks' Service), or --webhook-server-port=0 for none"
    )]
    WebhookPort {
        /// The port.
        port: u16,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A definition we ship cannot be read.
    #[error("cannot read the definition {name}")]
    Definition {
        /// The file it comes from.
        name: &'static str,
        /// Where and why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The schema of a definition we ship cannot be used.
    #[error("the schema of {name} is not structural: {errors}")]
    Schema {
        /// The definition's name.
        name: String,
        /// What is wrong.
        errors: String,
    },
    /// A definition was refused.
    #[error("cannot install the definition {name}")]
    Install {
        /// The definition's name.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A definition was taken and never served.
    #[error("the definition {name} is not served: {why}")]
    NotEstablished {
        /// The definition's name.
        name: String,
        /// What its conditions say.
        why: String,
    },
    /// Another replica may work now.
    #[error("the Lease {lease} is lost: {why}. Another replica takes over; this one has to start again")]
    LeaseLost {
        /// The Lease's name.
        lease: String,
        /// What happened.
        why: String,
    },
    /// The operator ended.
    #[error("the operator failed")]
    Operator(#[from] trainyard_operator::Error),
    /// A role ended that should have gone on.
    #[error("the role {0} ended although nobody asked it to")]
    Ended(&'static str),
    /// A role crashed: a bug of ours.
    #[error("a role crashed")]
    Crashed(#[from] tokio::task::JoinError),
}

impl Error {
    /// Whether a file found no space.
    pub(crate) fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let (Self::File { source, .. } | Self::DataDir { source, .. }) = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded)
    }
}

fn user(pid: Option<u32>, path: &std::path::Path) -> String {
    match pid {
        Some(pid) => format!(
            "another trainyard (process {pid}): stop it with `trainyard down --data-dir {}`",
            path.display()
        ),
        // Nobody who is alive has said that it is them: a process that does not end, or one in another container.
        None => format!(
            "a process that has not said who it is: find it with `fuser -v {}` and end it",
            path.join("lock").display()
        ),
    }
}
