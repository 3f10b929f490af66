//! Where the API listens.

use std::io::ErrorKind;
use std::net::Ipv4Addr;

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
