//! An embedded Kubernetes API server: real API semantics over `serde_json::Value`, as an [`axum::Router`].
//!
//! It knows nothing of training jobs and no generated Kubernetes types. Everything that has to be decided about
//! one request is a pure function of the stored object and the request; IO is at the two edges, `http` and
//! `store`.

pub mod patch;
pub mod schema;
pub mod selector;
pub mod store;
