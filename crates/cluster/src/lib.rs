//! A real Kubernetes control plane for tests: etcd and kube-apiserver, with controller manager, scheduler and a node if
//! wanted.
//!
//! What the embedded server answers is compared with what this one answers. Nothing has to be installed but Go: the
//! programs are built once from the pinned modules in `go/`, into a folder of the user's cache that is named after
//! their versions, and every later test finds them there.
//!
//! ```ignore
//! let cluster = Cluster::start(&Options { controllers: true, ..Options::default() })?;
//! kube(cluster.url(), cluster.token(), cluster.ca_pem());
//! ```

mod build;
mod cluster;
mod directory;
mod error;
mod node;
mod pki;
mod ports;
mod probe;
mod process;
mod programs;

pub use cluster::{Cluster, Options};
pub use directory::is_used;
pub use error::Error;
pub use node::IMAGE;
pub use ports::free_port;
pub use process::Process;
pub use programs::{ETCD, KUBERNETES, Programs, TRAINING_OPERATOR, default_directory};
