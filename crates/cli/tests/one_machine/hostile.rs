//! Requests that cost much: others are served beside them, and nothing of their cost stays.

use futures::future::join_all;
use kube::Client;
use serde_json::{Value, json};

use crate::kit::{Up, eventually};

const MIB: u64 = 1 << 20;

/// Small to send and large to check: each container lacks everything that a container needs.
fn hostile() -> Vec<u8> {
    let containers = vec![json!({}); 100_000];
    json!({"metadata": {"name": "hostile"}, "spec": {"containers": containers}}).to_string().into_bytes()
}

async fn send(client: &Client, body: Vec<u8>) -> u16 {
    let request =
        http::Request::post("/api/v1/namespaces/default/pods").header("content-type", "application/json");
    match client.request::<Value>(request.body(body).unwrap()).await {
        Ok(_) => 201,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("no answer: {error}"),
    }
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_goes_back_after_large_requests() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let before = resident(up.pid());
    for _ in 0..5 {
        let codes = join_all((0..4).map(|_| send(&client, hostile()))).await;
        assert_eq!(codes, [422; 4]);
    }
    // It was five times as much as before, for good.
    eventually("most of the memory is given back", async || resident(up.pid()) < before + 40 * MIB).await;
}
