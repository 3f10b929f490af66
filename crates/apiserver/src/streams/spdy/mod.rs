//! SPDY/3.1 as far as Kubernetes uses it: a client opens streams with a few headers, and both sides send data on them.
//!
//! `frame` reads and writes frames and knows nothing of connections; `headers` unpacks header blocks; `connection` is the
//! server's side of a connection. There is no flow control per stream, for no client of Kubernetes has it: a stream that
//! is not read holds up its connection once a small buffer is full.

mod connection;
pub mod frame;
pub mod headers;

pub(crate) use self::connection::{Gone, SpdyStream, serve};
