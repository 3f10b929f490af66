//! Where the API listens, and what else is served.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

use crate::Error;

/// Listens on loopback and nowhere else; port 0 is any free one.
///
/// Whoever reaches this API runs processes as its owner, so no option makes it listen for other machines.
pub async fn bind_loopback(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::PortTaken(port),
        _ => Error::Listen { port, source },
    })
}

/// Listens on an address as Go writes it: `HOST:PORT`, or `:PORT` for every address of this machine.
///
/// # Errors
/// When it is no address, or cannot be listened on.
pub async fn bind(address: &str) -> io::Result<TcpListener> {
    match address.strip_prefix(':').map(str::parse) {
        Some(Ok(port)) => everywhere(port).await,
        Some(Err(_)) => Err(io::Error::new(ErrorKind::InvalidInput, "that is no port")),
        None => TcpListener::bind(address).await,
    }
}

/// Listens on every address of this machine, IPv6 or not.
pub(crate) async fn everywhere(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        other => other,
    }
}
