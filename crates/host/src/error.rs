//! Why a host does not start, or does not go on.

use trainyard_apiserver::OpenError;
use trainyard_apiserver::store::backend::BackendError;

/// Why a host does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be used.
    #[error("cannot open the data directory")]
    Data(#[from] BackendError),
    /// The API server does not start.
    #[error("cannot start the API server")]
    Server(#[from] OpenError),
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
