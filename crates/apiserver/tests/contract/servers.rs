//! The two servers of the table.

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::io;
use std::sync::{Arc, Weak};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::auth::{self, Authenticator, Identity, Tokens};
use trainyard_apiserver::{Server, serve};
use trainyard_cluster::{Cluster, Options};

use crate::client::Target;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Ours, on a socket as `trainyard up` serves it.
pub(crate) struct Embedded {
    pub(crate) target: Target,
    shutdown: CancellationToken,
    ended: JoinHandle<io::Result<()>>,
    server: Server,
}

impl Embedded {
    pub(crate) async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let owner = Authenticator::new(Tokens::new([TOKEN]), Identity::internal("admin"));
        let server = Server::open(Server::options().authenticator(owner)).unwrap();
        let router = auth::require(server.router(), server.guard());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Target::new(&address.to_string(), TOKEN, &made.cert.pem());
        let shutdown = CancellationToken::new();
        let ended = tokio::spawn(serve::serve(router, listener, Arc::new(tls), shutdown.clone()));
        Self { target, shutdown, ended, server }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.ended.await.unwrap().unwrap();
        self.server.shutdown().await;
    }
}

/// A real one, with its controllers. The tests of this program share it; the last one that ends stops it.
pub(crate) struct Real {
    pub(crate) target: Target,
    defined: OnceCell<()>,
    _cluster: Cluster,
}

static REAL: Mutex<Weak<Real>> = Mutex::const_new(Weak::new());

/// The real one, with the definitions of `fixtures/`; nothing where it cannot be had.
pub(crate) async fn real() -> Option<Arc<Real>> {
    let mut shared = REAL.lock().await;
    let real = match shared.upgrade() {
        Some(real) => real,
        None => Arc::new(start().await?),
    };
    *shared = Arc::downgrade(&real);
    drop(shared);
    real.defined.get_or_init(|| crate::define(&real.target)).await;
    Some(real)
}

async fn start() -> Option<Real> {
    let options = Options { controllers: true, ..Options::default() };
    let start = move || Cluster::for_test(&options).unwrap();
    let cluster = tokio::task::spawn_blocking(start).await.unwrap()?;
    let address = cluster.url().trim_start_matches("https://");
    let target = Target::new(address, cluster.token(), cluster.ca_pem());
    Some(Real { target, defined: OnceCell::new(), _cluster: cluster })
}
