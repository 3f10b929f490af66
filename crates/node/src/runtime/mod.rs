//! Containers as processes: what to start, what became of it.

mod spec;

pub use self::spec::{ContainerSpec, Exit, ExitReason, Limits, LogRules, Mount, Orphan};
