//! One machine as a Kubernetes node.
//!
//! The node knows pods, not jobs. It places them (all of a gang or none), runs their containers as processes of this
//! machine, and says in their status what became of them. Each container runs under a *shim*: a small process of its own
//! that owns the log and the exit code and goes on when the control plane does not, so that a control plane that comes
//! back finds everything that happened meanwhile.

pub mod runtime;
