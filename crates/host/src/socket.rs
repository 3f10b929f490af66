//! The API on a socket of this machine: TLS with its own authority, a token, a kubeconfig for clients.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::{Server, auth};

use crate::pki::Pki;
use crate::{Error, kubeconfig};

/// A socket for others.
#[derive(Clone, Debug)]
pub struct Socket {
    /// On 127.0.0.1; 0 is any free one.
    pub port: u16,
    /// Where keys and the kubeconfig are kept.
    pub dir: PathBuf,
}

impl Socket {
    /// The kubeconfig that leads here.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.dir)
    }
}

/// The kubeconfig of a data directory.
fn kubeconfig_in(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// Everything up to the first accept happens now, so that a client that finds the kubeconfig finds the server.
pub(crate) fn serve(
    socket: &Socket,
    listener: TcpListener,
    server: &Server,
    pki: &Pki,
    shutdown: CancellationToken,
) -> Result<(SocketAddr, impl Future<Output = Result<(), Error>> + Send + use<>), Error> {
    let address = listener.local_addr().map_err(Error::Socket)?;
    let url = format!("https://{address}");
    let path = socket.kubeconfig();
    match kubeconfig::write(&path, &url, pki.ca_pem(), pki.token(), "default") {
        // Clients that know the address and the token can still delete what fills the disk.
        Err(error) if error.is_full() => tracing::warn!(
            path = %path.display(), url, "the disk is full: the kubeconfig could not be written; start again when there is space"
        ),
        result => result?,
    }
    let router = auth::require(server.router(), server.guard());
    let tls = pki.server_config();
    Ok((address, async move {
        trainyard_apiserver::serve::serve(router, listener, tls, shutdown).await.map_err(Error::Socket)
    }))
}
