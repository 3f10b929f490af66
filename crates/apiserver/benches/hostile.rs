//! What two clients with hostile bodies cost fifty others: `cargo bench -p trainyard-apiserver --bench hostile`.
//!
//! Each of the fifty asks forty times a second (reads, creates and patches of pods); the two send, without a pause, pods of
//! 100,000 empty containers. Rounds with and without the two take turns, and the medians of the rounds are printed.

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints figures"
)]

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use std::time::{Duration, Instant};
use tower::ServiceExt;
use trainyard_apiserver::Server;

const CLIENTS: usize = 50;
const HOSTILE: usize = 2;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(5);
const PACE: Duration = Duration::from_millis(25);
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(router: &Router, method: &str, path: &str, media: &str, body: String) -> u16 {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    code
}

fn pod(name: &str) -> String {
    let container =
        json!({"name": "main", "image": "example.com/train:1", "command": ["python", "train.py"]});
    json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}})
        .to_string()
}

/// How long each request of one client took.
async fn client(router: Router, name: String, until: Instant) -> Vec<Duration> {
    let path = format!("{PODS}/{name}");
    let mut took = Vec::new();
    let mut ticks = tokio::time::interval(PACE);
    for step in 0.. {
        ticks.tick().await;
        let start = Instant::now();
        if start > until {
            break;
        }
        let code = match step % 4 {
            0 => send(&router, "POST", PODS, "application/json", pod(&name)).await,
            1 => send(&router, "GET", &path, "application/json", String::new()).await,
            2 => {
                let body = json!({"status": {"phase": "Running"}}).to_string();
                send(&router, "PATCH", &format!("{path}/status"), "application/merge-patch+json", body).await
            }
            _ => {
                send(
                    &router,
                    "DELETE",
                    &format!("{path}?gracePeriodSeconds=0"),
                    "application/json",
                    String::new(),
                )
                .await
            }
        };
        took.push(start.elapsed());
        assert!(code < 300, "step {step} of {name} is answered {code}");
    }
    took
}

async fn hostile(router: Router, until: Instant) -> usize {
    let body =
        json!({"metadata": {"name": "p"}, "spec": {"containers": vec![json!({}); 100_000]}}).to_string();
    let mut sent = 0;
    while Instant::now() < until {
        assert_eq!(send(&router, "POST", PODS, "application/json", body.clone()).await, 422);
        sent += 1;
    }
    sent
}

/// The median and the 99th percentile of one round, in milliseconds, and how many hostile bodies were answered.
async fn round(router: &Router, number: usize, hostiles: usize) -> (f64, f64, usize) {
    let until = Instant::now() + ROUND;
    let others: Vec<_> = (0..hostiles).map(|_| tokio::spawn(hostile(router.clone(), until))).collect();
    let clients: Vec<_> =
        (0..CLIENTS).map(|n| tokio::spawn(client(router.clone(), format!("r{number}-{n}"), until))).collect();
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await.unwrap());
    }
    let mut sent = 0;
    for other in others {
        sent += other.await.unwrap();
    }
    took.sort();
    let at = |part: f64| took[(took.len() as f64 * part) as usize].as_secs_f64() * 1e3;
    (at(0.5), at(0.99), sent)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::open(Server::options()).unwrap();
        let router = server.router();
        let (mut calm, mut beside, mut sent) = (Vec::new(), Vec::new(), 0);
        for number in 0..ROUNDS {
            calm.push(round(&router, number * 2, 0).await);
            let (middle, late, answered) = round(&router, number * 2 + 1, HOSTILE).await;
            beside.push((middle, late, answered));
            sent += answered;
        }
        let row = |what: &str, rounds: &[(f64, f64, usize)]| {
            let (p50, p99) = (
                median(rounds.iter().map(|round| round.0).collect()),
                median(rounds.iter().map(|round| round.1).collect()),
            );
            println!("  {what:<24} p50 {p50:>8.2} ms   p99 {p99:>8.2} ms");
            p99
        };
        println!("{CLIENTS} clients, {HOSTILE} hostile ones ({sent} hostile bodies answered), medians of {ROUNDS} rounds");
        let without = row("without hostile bodies", &calm);
        let with = row("beside hostile bodies", &beside);
        println!("  p99 beside them is {:.1} times as long", with / without);
        server.shutdown().await;
    });
}
