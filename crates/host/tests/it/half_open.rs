//! Real connections through a proxy that goes half-open: it keeps them and forwards nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::middleware::{self, Next};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_host::{Host, Options, Socket, operator_on};

/// Nothing here takes as long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// Forwards connections, until they are cut off.
#[derive(Clone)]
struct Proxy {
    port: u16,
    opened: Arc<AtomicU64>,
    cut: Arc<AtomicU64>,
}

impl Proxy {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self { port, opened: Arc::default(), cut: Arc::default() };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                serving.opened.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let epoch = serving.cut.load(Ordering::SeqCst);
                tokio::spawn(forward(from_client, to_server, Arc::clone(&serving.cut), epoch));
                tokio::spawn(forward(from_server, to_client, Arc::clone(&serving.cut), epoch));
            }
        });
        proxy
    }

    /// From now on nothing that is said over a connection that is open arrives.
    fn cut(&self) {
        self.cut.fetch_add(1, Ordering::SeqCst);
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    cut: Arc<AtomicU64>,
    epoch: u64,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(read) = from.read(&mut bytes).await {
        if cut.load(Ordering::SeqCst) > epoch {
            // Neither the bytes nor the end of the connection get through.
            return std::future::pending().await;
        }
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// An API server on a socket, and how to reach it through a proxy.
async fn served(dir: &std::path::Path) -> (Host, Proxy, Config) {
    let socket = Socket { port: 0, dir: dir.to_owned() };
    let kubeconfig = socket.kubeconfig();
    let crds = Options::local().crds;
    let host = Host::start(Options { crds, socket: Some(socket), ..Options::bare() }).await.unwrap();
    let port = host.address().unwrap().port();
    let proxy = Proxy::to(port).await;
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace(&format!(":{port}"), &format!(":{}", proxy.port))).unwrap();
    let kubeconfig = Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (host, proxy, config)
}

async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let held = async {
        while !condition().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn get(client: &Client, path: &str) -> Value {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap_or_default()
}

fn job() -> (String, Value) {
    let kind = Catalog::default().kinds[0];
    let facts = Catalog::default().framework(kind.framework).unwrap().facts();
    let template = json!({ "spec": { "containers": [{ "name": facts.container, "image": "i" }] } });
    let job = json!({ "apiVersion": kind.api_version(), "kind": kind.name, "metadata": { "name": "a" },
        "spec": { kind.replica_specs: { facts.followers: { "template": template } } } });
    (format!("/apis/{}/namespaces/default/{}", kind.api_version(), kind.plural), job)
}

#[tokio::test]
async fn a_dead_watch_takes_the_pooled_connections_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (host, proxy, config) = served(dir.path()).await;
    let (client, connections) = trainyard_operator::connect(config).unwrap();
    let mut options = trainyard_operator::Options { connections, ..Default::default() };
    (options.watch.seconds, options.watch.slack) = (1, Duration::from_secs(1));
    // Nothing but a new connection helps.
    options.effort.timeout = PATIENCE.saturating_mul(10);
    let role = operator_on(client.clone(), Catalog::default(), options).unwrap();
    let (health, shutdown) = (role.health(), CancellationToken::new());
    let running = tokio::spawn(role.run(shutdown.clone()));
    until("ready", || async { health.ready() }).await;
    // Whatever lies in the pool is as dead as the watches.
    get(&client, "/version").await;
    proxy.cut();
    let (path, job) = job();
    let body = job.to_string().into_bytes();
    let request = Request::post(path).header("content-type", "application/json").body(body).unwrap();
    host.client().request::<Value>(request).await.unwrap();
    until("a pod", || async {
        let pods = get(&host.client(), "/api/v1/namespaces/default/pods").await;
        pods["items"].as_array().is_some_and(|pods| !pods.is_empty())
    })
    .await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    host.stop().await.unwrap();
}

/// The kernel's table of connections says which timer each of them has: 02 is that of keep-alive.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_watches_over_idle_connections() {
    let dir = tempfile::tempdir().unwrap();
    let (host, proxy, config) = served(dir.path()).await;
    let (client, _) = trainyard_operator::connect(config).unwrap();
    get(&client, "/version").await;
    let remote = format!("0100007F:{:04X}", proxy.port);
    until("a keep-alive timer", || async {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(2) == Some(&remote.as_str())
                && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
        })
    })
    .await;
    assert!(proxy.opened.load(Ordering::SeqCst) > 0);
    host.stop().await.unwrap();
}

/// The codes of `/healthz` and `/readyz`.
async fn probe(probes: &Client) -> (u16, u16) {
    let mut codes = Vec::new();
    for path in ["/healthz", "/readyz"] {
        let request = Request::get(path).body(kube::client::Body::empty()).unwrap();
        codes.push(probes.send(request).await.unwrap().status().as_u16());
    }
    (codes[0], codes[1])
}

#[tokio::test(start_paused = true)]
async fn probes_tell_a_dead_watch_from_a_dead_server() {
    let crds = Options::local().crds;
    let host = Host::start(Options { crds, ..Options::bare() }).await.unwrap();
    let (watches, everything) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (no_watch, nothing) = (Arc::clone(&watches), Arc::clone(&everything));
    let guard = middleware::from_fn(move |request: axum::extract::Request, next: Next| {
        let query = request.uri().query().unwrap_or_default();
        let follows = query.contains("watch=true") || query.contains("limit=");
        let lost = |flag: &AtomicU64| flag.load(Ordering::SeqCst) > 0;
        let hangs = lost(&nothing) || (follows && lost(&no_watch));
        async move { if hangs { std::future::pending().await } else { next.run(request).await } }
    });
    let client = Client::new(host.router().layer(guard), "default");
    let role = operator_on(client, Catalog::default(), trainyard_operator::Options::default()).unwrap();
    let (health, shutdown) = (role.health(), CancellationToken::new());
    let probes = Client::new(trainyard_host::admin::probes(role.health(), role.leadership()), "default");
    let running = tokio::spawn(role.run(shutdown.clone()));
    health.until_ready().await;
    let pass = || tokio::time::sleep(Duration::from_secs(600));
    pass().await;
    assert_eq!(probe(&probes).await, (200, 200));
    everything.store(1, Ordering::SeqCst);
    pass().await;
    assert_eq!(probe(&probes).await, (200, 500), "the server is down");
    everything.store(0, Ordering::SeqCst);
    pass().await;
    assert_eq!(probe(&probes).await, (200, 200));
    watches.store(1, Ordering::SeqCst);
    pass().await;
    assert_eq!(probe(&probes).await, (500, 500), "the server answers, and not the watches");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
