//! Requests a second of `trainyard up` beside a real kube-apiserver with etcd, in one run: both over TLS, both with every
//! write on disk before it is answered, the same client for both. Then what a thousand watches cost.
//!
//! `cargo bench --package trainyard-cli --bench servers` prints the table of docs/performance.md; with `-- rates` it leaves
//! the watches out, with `-- ours` the real server too.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected has to stop, and its figures are its output"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trainyard_cluster::{Cluster, Options};

/// Each verb is measured for so long.
const TIME: Duration = Duration::from_secs(8);
const CONNECTIONS: usize = 16;
/// Pods that are read, listed and patched.
const PODS: usize = 500;
const WATCHES: usize = 1000;
const OBJECTS: usize = 10_000;
/// What the server may take with all of them.
const LIMIT_MIB: f64 = 150.0;

/// A server and how to get in.
#[derive(Clone)]
struct Server {
    address: String,
    token: String,
    tls: TlsConnector,
}

impl Server {
    fn of(kubeconfig: &Path) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let file: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let field =
            |pointer: &str| file.pointer(pointer).and_then(serde_json::Value::as_str).unwrap().to_owned();
        let pem = field("/clusters/0/cluster/certificate-authority-data");
        let pem = base64::engine::general_purpose::STANDARD.decode(pem).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let address = field("/clusters/0/cluster/server");
        let address = address.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Self { address, token: field("/users/0/user/token"), tls: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = self.tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header("host", &self.address)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", call.media)
            .header("accept", "application/json")
            .body(Full::new(Bytes::from(call.body.clone())))
            .unwrap()
    }

    async fn send(&self, sender: &mut SendRequest<Full<Bytes>>, call: &Call) -> (u16, Incoming) {
        sender.ready().await.unwrap();
        let response = sender.send_request(self.request(call)).await.unwrap();
        (response.status().as_u16(), response.into_body())
    }
}

struct Call {
    method: &'static str,
    path: String,
    media: &'static str,
    body: String,
}

const COLLECTION: &str = "/api/v1/namespaces/bench/pods";

fn call(method: &'static str, path: impl Into<String>, body: serde_json::Value) -> Call {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Call { method, path: path.into(), media, body }
}

fn pod(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"training.kubeflow.org/job-name": "bench", "training.kubeflow.org/replica-type": "worker"}},
        "spec": {"restartPolicy": "Never", "schedulerName": "none", "automountServiceAccountToken": false, "containers": [{
            "name": "pytorch", "image": "example.com/train:1", "command": ["python", "train.py"],
            "env": [{"name": "MASTER_ADDR", "value": "bench-master-0"}, {"name": "RANK", "value": "0"}],
            "ports": [{"name": "pytorchjob-port", "containerPort": 23456}],
        }]},
    })
}

/// Each changes something, so that each is a write.
fn status(n: usize) -> serde_json::Value {
    json!({"status": {"phase": "Running", "message": format!("step {n}")}})
}

/// Requests a second, on as many connections as are given.
async fn rate(server: &Server, make: impl Fn(usize) -> Call + Send + Sync + 'static) -> f64 {
    let (make, next, done) = (Arc::new(make), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (server, make, next, done) =
                (server.clone(), Arc::clone(&make), Arc::clone(&next), Arc::clone(&done));
            tokio::spawn(async move {
                let mut sender = server.connect().await;
                while begun.elapsed() < TIME {
                    let call = make(next.fetch_add(1, Ordering::Relaxed));
                    let (code, mut body) = server.send(&mut sender, &call).await;
                    while let Some(frame) = body.frame().await {
                        frame.unwrap();
                    }
                    assert!(code < 300, "{} {}: {code}", call.method, call.path);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

async fn prepare(server: &Server) {
    let mut sender = server.connect().await;
    let account = json!({"metadata": {"name": "default"}});
    let mut calls = vec![
        call("POST", "/api/v1/namespaces", json!({"metadata": {"name": "bench"}})),
        call("POST", "/api/v1/namespaces/bench/serviceaccounts", account),
    ];
    calls.extend((0..PODS).map(|n| call("POST", COLLECTION, pod(&format!("there-{n}")))));
    for call in &calls {
        let (code, body) = server.send(&mut sender, call).await;
        let text = body.collect().await.unwrap().to_bytes();
        assert!(code < 300 || code == 409, "{}: {code} {}", call.path, String::from_utf8_lossy(&text));
    }
}

async fn measure(server: &Server) -> [f64; 4] {
    prepare(server).await;
    let there = |n: usize| format!("{COLLECTION}/there-{}", n % PODS);
    let get = rate(server, move |n| call("GET", there(n), serde_json::Value::Null)).await;
    let list =
        rate(server, |_| call("GET", format!("{COLLECTION}?limit={PODS}"), serde_json::Value::Null)).await;
    let patch = rate(server, move |n| call("PATCH", format!("{}/status", there(n)), status(n))).await;
    let create = rate(server, |n| call("POST", COLLECTION, pod(&format!("new-{n}")))).await;
    [get, list, create, patch]
}

/// `trainyard up` with the server alone.
struct Up(Child);

impl Up {
    fn start(dir: &Path) -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.arg("up").arg("--data-dir").arg(dir).args(["--port", "0", "--without", "operator,node"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child)
    }

    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thousand clients that watch ten thousand objects, each on its own connection, and see a change.
async fn watches(server: &Server, up: &Up) {
    let mut sender = server.connect().await;
    let before = up.resident();
    let data = "x".repeat(700);
    for n in 0..OBJECTS {
        let body = json!({"metadata": {"name": format!("watched-{n}")}, "data": {"k": data}});
        let (code, body) =
            server.send(&mut sender, &call("POST", "/api/v1/namespaces/bench/configmaps", body)).await;
        body.collect().await.unwrap();
        assert!(code < 300, "{code}");
    }
    let objects = up.resident();
    let mut followed = Vec::new();
    for _ in 0..WATCHES {
        let mut sender = server.connect().await;
        let path = "/api/v1/namespaces/bench/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let (code, mut body) = server.send(&mut sender, &call("GET", path, serde_json::Value::Null)).await;
        assert!(code < 300, "{code}");
        // All that is there, up to the mark that ends it.
        let mut end = Vec::new();
        while !String::from_utf8_lossy(&end).contains("initial-events-end") {
            let frame = body.frame().await.expect("a watch goes on").unwrap();
            if let Ok(data) = frame.into_data() {
                end.drain(..end.len().saturating_sub(200));
                end.extend_from_slice(&data);
            }
        }
        followed.push((sender, body));
    }
    // Another connection: one that is silent for so long is closed.
    let mut sender = server.connect().await;
    let body = json!({"metadata": {"name": "news"}});
    let (code, _) =
        server.send(&mut sender, &call("POST", "/api/v1/namespaces/bench/configmaps", body)).await;
    assert!(code < 300, "{code}");
    for (_, body) in &mut followed {
        body.frame().await.expect("the news").unwrap();
    }
    let all = up.resident();
    println!(
        "{OBJECTS} objects: {objects:.0} MiB (before {before:.0}); with {WATCHES} watches of all of them: {all:.0} MiB, limit {LIMIT_MIB:.0}"
    );
    assert!(all <= LIMIT_MIB, "{all:.0} MiB are too many");
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let home = tempfile::tempdir().unwrap();
    let asked = |what: &str| std::env::args().any(|word| word == what);
    if !asked("rates") && !asked("ours") {
        let up = Up::start(&home.path().join("watched"));
        let server = Server::of(&home.path().join("watched/kubeconfig"));
        prepare(&server).await;
        watches(&server, &up).await;
    }
    let ours = {
        let _up = Up::start(&home.path().join("measured"));
        measure(&Server::of(&home.path().join("measured/kubeconfig"))).await
    };
    if asked("ours") {
        println!("get, list, create, patch: {ours:.0?} a second");
        return;
    }
    let Some(real) = Cluster::for_test(&Options { durable: true, ..Options::default() }).unwrap() else {
        return;
    };
    let theirs = measure(&Server::of(real.kubeconfig())).await;
    println!(
        "| requests/s, {CONNECTIONS} connections | kube-apiserver and etcd | trainyard up | ratio |\n|---|---|---|---|"
    );
    for (n, what) in ["get a pod", "list 500 pods", "create a pod", "patch a pod's status"].iter().enumerate()
    {
        println!("| {what} | {:.0} | {:.0} | {:.1} |", theirs[n], ours[n], ours[n] / theirs[n]);
    }
}
