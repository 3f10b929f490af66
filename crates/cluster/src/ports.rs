//! Ports nobody listens on. Another process may take one before ours does: then the start is tried again with others.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// The ports of one control plane, on loopback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api: u16,
}

impl Ports {
    /// Three different ports: all are held until the last is known.
    pub(crate) fn pick() -> io::Result<Self> {
        let hold = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let [etcd, etcd_peer, api] = [hold()?, hold()?, hold()?];
        let port = |held: &TcpListener| held.local_addr().map(|address| address.port());
        Ok(Self { etcd: port(&etcd)?, etcd_peer: port(&etcd_peer)?, api: port(&api)? })
    }
}

/// Whether a log says that a port was taken.
pub(crate) fn was_taken(log: &str) -> bool {
    log.contains("address already in use")
}
