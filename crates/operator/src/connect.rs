//! Connections to the API server that can be dropped.
//!
//! A connection whose other end vanished without a word looks like one on which nothing happens. A client that keeps it
//! in its pool hands it out again. So a watch that turns out to be dead takes the whole pool with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The kernel asks the other end of a quiet connection after this long, and then as often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// So many questions may stay without an answer before the kernel breaks the connection.
const KEEP_ALIVE_TRIES: u32 = 3;
/// The kernel breaks a connection on which nothing that was sent arrived for this long.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// A server that can be reached accepts a connection within this.
const CONNECT: Duration = Duration::from_secs(15);
/// A server that is well answers a simple question within this.
const ANSWER: Duration = Duration::from_secs(10);

pub(crate) type Transport = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// The connections of a client. Clones share them.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    server: Uri,
    make: Box<dyn Fn() -> Transport + Send + Sync>,
    current: Mutex<Pool>,
}

struct Pool {
    /// How often the connections were dropped.
    number: u64,
    transport: Transport,
}

/// A client for a cluster, and its connections. The kernel watches over them.
///
/// # Errors
/// As `kube::Client::try_from`.
pub fn connect(config: Config) -> Result<(Client, Option<Connections>), kube::Error> {
    if config.proxy_url.is_some() {
        // How a proxy is spoken to is kube's to know.
        return Ok((Client::try_from(config)?, None));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT)));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE));
    tcp.set_keepalive_retries(Some(KEEP_ALIVE_TRIES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let connections = Connections::new(config.cluster_url.clone(), move || {
        let client = legacy::Builder::new(TokioExecutor::new()).build(connector.clone());
        BoxCloneSyncService::new(client.map_err(BoxError::from))
    });
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections.clone());
    Ok((Client::new(service, config.default_namespace), Some(connections)))
}

impl Connections {
    pub(crate) fn new(server: Uri, make: impl Fn() -> Transport + Send + Sync + 'static) -> Self {
        let current = Mutex::new(Pool { number: 0, transport: make() });
        Self(Arc::new(Shared { server, make: Box::new(make), current }))
    }

    /// Which pool is in use: goes up each time the connections are dropped.
    pub fn number(&self) -> u64 {
        self.pool().number
    }

    /// Drops the connections of the pool with this number: whatever comes next is sent over new ones. Requests that are
    /// under way go on. Does nothing if that pool was dropped already.
    pub fn drop_all(&self, number: u64) {
        let mut pool = self.pool();
        if pool.number == number {
            *pool = Pool { number: number.saturating_add(1), transport: (self.0.make)() };
        }
    }

    /// Whether the server answers over a new connection, whatever it says.
    pub async fn answers(&self) -> bool {
        let mut parts = self.0.server.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/version"));
        let request = Uri::from_parts(parts).map(|uri| Request::get(uri).body(Body::empty()));
        let Ok(Ok(request)) = request else { return false };
        let asked = timeout(ANSWER, (self.0.make)().oneshot(request)).await;
        matches!(asked, Ok(Ok(answer)) if !answer.status().is_server_error())
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connections to {}", self.0.server)
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.pool().transport.clone();
        Box::pin(transport.oneshot(request))
    }
}
