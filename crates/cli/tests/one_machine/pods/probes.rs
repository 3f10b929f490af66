//! Probes of real containers.

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use super::*;
use crate::kit::{Up, eventually};

/// A server that answers every connection well, before it is asked anything.
fn serve() -> u16 {
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = web.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            // A client that went away is its own affair.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_of_all_kinds() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "0"]).await;
    let client = up.client().await;
    let port = serve();
    let ready = home.path().join("ready");
    let probe = |what: Value| with(what, json!({ "periodSeconds": 1, "failureThreshold": 1 }));
    let ports = json!([{ "name": "web", "containerPort": port }]);
    let http = probe(json!({ "httpGet": { "path": "/", "port": "web" } }));
    let tcp = probe(json!({ "tcpSocket": { "port": port } }));
    let closed = probe(json!({ "tcpSocket": { "port": 1 } }));
    let exec = probe(json!({ "exec": { "command": ["test", "-e", ready.to_string_lossy()] } }));
    let hangs = probe(json!({ "exec": { "command": ["sleep", "100"] }, "timeoutSeconds": 1 }));
    make(
        &client,
        pod(
            "healthy",
            json!({ "containers": [
        with(sh("http", FOREVER), json!({ "ports": ports, "startupProbe": http, "livenessProbe": tcp })),
        with(sh("exec", FOREVER), json!({ "readinessProbe": exec })) ] }),
        ),
    )
    .await;
    make(
        &client,
        pod("closed", json!({ "containers": [with(sh("c", FOREVER), json!({ "readinessProbe": closed }))] })),
    )
    .await;
    make(&client, pod("hangs", json!({ "terminationGracePeriodSeconds": 1, "containers": [with(sh("c", FOREVER), json!({ "startupProbe": hangs }))] })))
        .await;
    let is_ready = async |name: &str, container_name: &str| {
        let pod = api(&client).get(name).await.unwrap();
        phase(&pod) == "Running" && container(&pod, container_name).ready
    };
    eventually("http is ready", async || is_ready("healthy", "http").await).await;
    assert!(!is_ready("healthy", "exec").await && !is_ready("closed", "c").await);
    fs::write(&ready, "").unwrap();
    eventually("exec is ready", async || is_ready("healthy", "exec").await).await;
    fs::remove_file(&ready).unwrap();
    eventually("and no more", async || !is_ready("healthy", "exec").await).await;
    eventually("a startup probe that hangs restarts its container", async || {
        let pod = api(&client).get("hangs").await.unwrap();
        pod.status.as_ref().is_some_and(|s| s.container_statuses.is_some())
            && container(&pod, "c").restart_count >= 1
    })
    .await;
    let healthy = api(&client).get("healthy").await.unwrap();
    assert_eq!(
        (container(&healthy, "http").restart_count, container(&healthy, "exec").restart_count),
        (0, 0)
    );
    eventually("complaints are events", async || {
        events(&client, "closed").await.iter().any(|(reason, _)| reason == "Unhealthy")
    })
    .await;
}
