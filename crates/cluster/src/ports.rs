//! Ports nobody listens on. Another process may take one before ours does: then the start is tried again with others.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first that is given, and how many there are.
const FIRST: u32 = 12_000;
const FREE: u32 = 8000;

/// The ports of one control plane, on loopback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api: u16,
}

impl Ports {
    pub(crate) fn pick() -> io::Result<Self> {
        Ok(Self { etcd: free_port()?, etcd_peer: free_port()?, api: free_port()? })
    }
}

/// Whether a log says that a port was taken.
pub(crate) fn was_taken(log: &str) -> bool {
    log.contains("address already in use")
}

/// A port on which nobody listens and that was not given before, for a program that is started in a moment. It lies below
/// those that the machine gives to clients, of which one could be gone by then, and above those of Kubernetes' own programs.
///
/// # Errors
/// When none is free.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that start one after the other do not meet.
    let start = std::process::id().wrapping_mul(31);
    let next = || start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % FREE;
    let ports = std::iter::repeat_with(next).filter_map(|at| u16::try_from(FIRST + at).ok());
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let tried = usize::try_from(FREE).unwrap_or(usize::MAX);
    ports.take(tried).find(free).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}
