//! How many requests a second the server takes in process: `cargo bench -p trainyard-apiserver`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints figures")]

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use std::time::Instant;
use tower::ServiceExt;
use trainyard_apiserver::Server;
use trainyard_apiserver::store::journal::Journal;

const OBJECTS: usize = 40_000;
const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";

fn pod(name: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {
            "training.kubeflow.org/job-name": "bench", "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0", "training.kubeflow.org/operator-name": "pytorchjob-controller",
        }},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "pytorch", "image": "example.com/train:1", "command": ["python", "train.py"],
            "env": [{"name": "MASTER_ADDR", "value": "bench-master-0"}, {"name": "RANK", "value": "0"}],
            "ports": [{"name": "pytorchjob-port", "containerPort": 23456}],
        }]},
    })
    .to_string()
}

async fn send(router: &Router, method: &str, path: &str, media: &str, body: String) {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    response.into_body().collect().await.unwrap();
}

type Call = fn(usize) -> (&'static str, String, &'static str, String);

async fn measure(what: &str, router: &Router, tasks: usize, call: Call) {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let router = router.clone();
            tokio::spawn(async move {
                for n in (task..OBJECTS).step_by(tasks) {
                    let (method, path, media, body) = call(n);
                    send(&router, method, &path, media, body).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rate = OBJECTS as f64 / start.elapsed().as_secs_f64();
    println!("  {what:<26} {rate:>9.0} /s");
}

async fn once(what: &str, router: &Router, path: &str) {
    let start = Instant::now();
    send(router, "GET", path, JSON, String::new()).await;
    println!("  {what:<26} {:>9.1} ms", start.elapsed().as_secs_f64() * 1e3);
}

async fn all(server: Server, tasks: usize) {
    let router = server.router();
    measure("create pod", &router, tasks, |n| ("POST", PODS.into(), JSON, pod(&format!("p{n}")))).await;
    measure("get pod", &router, tasks, |n| ("GET", format!("{PODS}/p{n}"), JSON, String::new())).await;
    measure("merge-patch pod status", &router, tasks, |n| {
        let body = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}).to_string();
        ("PATCH", format!("{PODS}/p{n}/status"), "application/merge-patch+json", body)
    })
    .await;
    once("list of all pods", &router, PODS).await;
    once("list by label", &router, &format!("{PODS}?labelSelector=training.kubeflow.org/job-name%3Dbench"))
        .await;
    measure("delete pod", &router, tasks, |n| ("DELETE", format!("{PODS}/p{n}"), JSON, String::new())).await;
    server.shutdown().await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("in memory, 4 clients, {OBJECTS} objects");
        all(Server::open(Server::options()).unwrap(), 4).await;
        let folder = tempfile::tempdir().unwrap();
        let backend = Journal::open(&folder.path().join("state.redb")).unwrap();
        println!("on disk, 256 clients, {OBJECTS} objects");
        all(Server::open(Server::options().backend(backend)).unwrap(), 256).await;
    });
}
