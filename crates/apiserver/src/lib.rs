//! An embedded Kubernetes API server: real API semantics over `serde_json::Value`, as an [`axum::Router`].
//!
//! It knows nothing of training jobs and no generated Kubernetes types. Everything that has to be decided about
//! one request is a pure function of the stored object and the request (`rules`, `object`, `builtin`, `crd`); IO is
//! at the two edges, `http` and `store`.
//!
//! ```ignore
//! let server = Server::open(Server::options().backend(Journal::open(path)?))?;
//! let client = kube::Client::new(server.router(), "default"); // in process, no socket
//! ```
//!
//! On a socket it is `serve(auth::require(server.router(), server.guard()), listener, tls, shutdown)`.
//!
//! How a write goes: `http` reads the request and finds what is served under its path (`registry`); `rules` makes of the
//! newest stored object and the request the next one; `store` swaps it in if nobody was quicker, commits it together with
//! others, and only then shows it to readers and watchers. `gc` follows the store's events and cleans up after owners,
//! namespaces and definitions that went away.

mod admission;
mod app;
pub mod auth;
mod builtin;
mod controllers;
mod crd;
mod decode;
mod discovery;
mod extension;
mod failure;
mod fields;
mod gc;
mod http;
pub mod logs;
mod object;
mod openapi;
pub mod patch;
mod protection;
mod registry;
mod rules;
pub mod schema;
pub mod selector;
pub mod serve;
mod server;
pub mod store;
pub mod streams;
mod tables;
mod types;
mod wire;
mod workloads;
pub mod yaml;

pub use admission::{Judge, Validator};
pub use extension::{Extension, ExtensionResource};
pub use server::{Clock, OpenError, Options, Ready, Server};
