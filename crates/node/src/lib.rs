//! One machine as a Kubernetes node.
//!
//! The node knows pods, not jobs. It places them (all of a gang or none), runs their containers as processes of this
//! machine, and says in their status what became of them. Each container runs under a *shim*: a small process of its own
//! that owns the log and the exit code and goes on when the control plane does not, so that a control plane that comes
//! back finds everything that happened meanwhile.
//!
//! What is decided is pure: `schedule` (which pods start), `pod::step` (what happens to a pod next), `env` and `volumes`
//! (what a container gets). What is done is at the edge: `node` and `placing` talk to the API, `pod::worker` to the
//! `runtime`, the runtime to shims.

mod account;
mod aside;
pub mod demand;
mod disk;
mod ending;
mod entrypoints;
pub mod env;
mod events;
mod fetch;
mod files;
pub mod inventory;
mod leftovers;
pub mod lock;
mod logs;
mod machine;
mod metrics;
mod node;
mod open_files;
mod options;
mod placing;
mod pod;
mod preflight;
mod proc;
pub mod quantity;
mod remove;
pub mod runtime;
pub mod schedule;
mod secrets;
mod shared;
pub mod shim;
pub mod sources;
mod streams;
pub mod unsupported;
mod users;
pub mod volumes;
mod watch;

pub use self::disk::Disk;
pub use self::ending::{end_containers, end_holder};
pub use self::entrypoints::Entrypoints;
pub use self::inventory::Inventory;
pub use self::leftovers::Keep;
pub use self::logs::{LogQuery, NodeLogs};
pub use self::metrics::{ContainerUsage, NodeMetrics};
pub use self::node::Node;
pub use self::open_files::raise_open_files;
pub use self::options::{Clock, Options, Surroundings};
pub use self::pod::BackOff;
pub use self::preflight::{PodProblem, Preflight, preflight};
pub use self::remove::remove_tree;
pub use self::secrets::scrub_all;
pub use self::streams::NodeStreams;
pub use self::users::{HELPER, UidRange};
