//! A server that refuses writes: annotations that are too large, webhooks that are down.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::{Method, Request, Response};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trainyard_api::labels::RECORD;
use trainyard_apiserver::Server;
use trainyard_operator::{Catalog, Health, Operator, Options};

use crate::plane::{clock, get, pytorch, send, server};

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// What is refused now.
#[derive(Clone, Default)]
struct Guard {
    records: Arc<AtomicBool>,
    statuses: Arc<AtomicBool>,
    pods: Arc<AtomicBool>,
}

fn is(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

impl Guard {
    fn client(&self, server: &Server) -> Client {
        let (guard, router) = (self.clone(), server.router());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (guard, router) = (guard.clone(), router.clone());
            async move { guard.pass(router, request).await }
        });
        Client::new(service, "default")
    }

    async fn pass(
        self,
        router: axum::Router,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let (path, has) = (parts.uri.path(), |text: &str| String::from_utf8_lossy(&body).contains(text));
        let of_status = path.ends_with("/status");
        let refusal = if parts.method == Method::PATCH && !of_status && has(RECORD) && is(&self.records) {
            Some((422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes"))
        } else if parts.method == Method::PATCH && of_status && is(&self.statuses) {
            Some((500, "InternalError", "failed calling webhook \"x\": connection refused"))
        } else if parts.method == Method::POST && path.ends_with("/pods") && is(&self.pods) {
            Some((500, "InternalError", "failed calling webhook \"y\": connection refused"))
        } else {
            None
        };
        if let Some((code, reason, message)) = refusal {
            let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": message });
            let answer = Response::builder().status(code).header("content-type", "application/json");
            return Ok(answer.body(Body::from(status.to_string())).unwrap());
        }
        router.oneshot(Request::from_parts(parts, Body::from(body))).await
    }
}

struct World {
    guard: Guard,
    direct: Client,
    health: Health,
    shutdown: CancellationToken,
    _server: Server,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    /// With a job of one master and one worker that run.
    async fn start(policy: Value) -> Self {
        let clock = clock();
        let (server, direct) = server(&clock).await;
        let guard = Guard::default();
        let options = Options { clock, ..Options::default() };
        let operator = Operator::new(guard.client(&server), Catalog::default(), options).unwrap();
        let (health, shutdown) = (operator.health(), CancellationToken::new());
        tokio::spawn(operator.run(shutdown.clone()));
        health.until_ready().await;
        let world = Self { guard, direct, health, shutdown, _server: server };
        let mut job = pytorch("j", 1);
        json_patch::merge(&mut job["spec"]["runPolicy"], &policy);
        for role in ["Master", "Worker"] {
            job["spec"]["pytorchReplicaSpecs"][role]["restartPolicy"] = json!("ExitCode");
        }
        send(&world.direct, Method::POST, JOBS, &job).await.unwrap();
        sleep(Duration::from_secs(2)).await;
        for pod in ["j-master-0", "j-worker-0"] {
            world.set(pod, json!({ "phase": "Running" })).await;
        }
        sleep(Duration::from_secs(2)).await;
        assert_eq!(world.state().await, "Created=True Running=True");
        world
    }

    async fn set(&self, pod: &str, status: Value) {
        let path = format!("{PODS}/{pod}/status");
        send(&self.direct, Method::PATCH, &path, &json!({ "status": status })).await.unwrap();
        sleep(Duration::from_secs(5)).await;
    }

    /// The worker fails with a code that asks for another pod.
    async fn fail_worker(&self) -> String {
        let uid = self.uid("j-worker-0").await;
        let ended = json!({ "exitCode": 130, "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:04Z" });
        let container = json!({ "name": "pytorch", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": ended } });
        self.set("j-worker-0", json!({ "phase": "Failed", "containerStatuses": [container] })).await;
        uid
    }

    async fn uid(&self, pod: &str) -> String {
        let pod = get(&self.direct, &format!("{PODS}/{pod}")).await.unwrap_or_default();
        pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    async fn conditions(&self) -> Vec<Value> {
        let job = get(&self.direct, &format!("{JOBS}/j")).await.unwrap();
        job["status"]["conditions"].as_array().unwrap().clone()
    }

    async fn state(&self) -> String {
        let text = |c: &Value| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap());
        self.conditions().await.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    async fn waiting(&self) -> String {
        let conditions = self.conditions().await;
        let waiting = conditions.iter().find(|c| c["type"] == "Waiting");
        waiting.map(|c| format!("{}: {}", c["reason"], c["message"])).unwrap_or_default()
    }

    async fn events(&self, reason: &str) -> usize {
        let events = get(&self.direct, "/api/v1/namespaces/default/events").await.unwrap();
        events["items"].as_array().unwrap().iter().filter(|event| event["reason"] == reason).count()
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_record_nothing_is_replaced_and_that_is_told() {
    let world = World::start(json!({})).await;
    world.guard.records.store(true, Ordering::SeqCst);
    let failed = world.fail_worker().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.uid("j-worker-0").await, failed, "it was not replaced");
    let waiting = world.waiting().await;
    assert!(waiting.contains("PyTorchJobRecordRefused") && waiting.contains("262144 bytes"), "{waiting}");
    assert_eq!(world.events("FailedUpdateRecord").await, 1);
    let writes = world.health.stats().writes;
    sleep(Duration::from_secs(600)).await;
    assert!(world.health.stats().writes - writes < 20, "it is tried again less and less often");
    world.guard.records.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(600)).await;
    assert_ne!(world.uid("j-worker-0").await, failed, "it is replaced as soon as that can be written down");
    assert_eq!(world.waiting().await, "");
}

#[tokio::test(start_paused = true)]
async fn without_a_record_a_job_ends_and_is_cleaned_up() {
    let world = World::start(json!({ "ttlSecondsAfterFinished": 100 })).await;
    world.guard.records.store(true, Ordering::SeqCst);
    world.fail_worker().await;
    world.set("j-master-0", json!({ "phase": "Succeeded" })).await;
    assert!(world.state().await.ends_with("Succeeded=True"), "{}", world.state().await);
    assert_eq!((world.uid("j-worker-0").await, world.uid("j-master-0").await), Default::default());
    sleep(Duration::from_secs(120)).await;
    assert!(get(&world.direct, &format!("{JOBS}/j")).await.is_err(), "its time to live is over");
}

#[tokio::test(start_paused = true)]
async fn without_a_record_deadlines_and_suspension_hold() {
    let world = World::start(json!({ "activeDeadlineSeconds": 120 })).await;
    world.guard.records.store(true, Ordering::SeqCst);
    world.fail_worker().await;
    sleep(Duration::from_secs(120)).await;
    assert!(world.state().await.ends_with("Failed=True"), "{}", world.state().await);

    let world = World::start(json!({})).await;
    world.guard.records.store(true, Ordering::SeqCst);
    let suspend = json!({ "spec": { "runPolicy": { "suspend": true } } });
    send(&world.direct, Method::PATCH, &format!("{JOBS}/j"), &suspend).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(world.state().await.ends_with("Suspended=True"), "{}", world.state().await);
    assert_eq!((world.uid("j-worker-0").await, world.uid("j-master-0").await), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_is_told() {
    let world = World::start(json!({})).await;
    world.guard.statuses.store(true, Ordering::SeqCst);
    world.set("j-master-0", json!({ "phase": "Succeeded" })).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.events("FailedUpdateStatus").await, 1);
    assert_ne!(world.uid("j-worker-0").await, "", "clean-up comes after the end is written down");
    world.guard.statuses.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(120)).await;
    assert!(world.state().await.ends_with("Succeeded=True"), "{}", world.state().await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_create_pods_for_a_while_is_told_of() {
    let world = World::start(json!({})).await;
    world.guard.pods.store(true, Ordering::SeqCst);
    world.fail_worker().await;
    sleep(Duration::from_secs(60)).await;
    let waiting = world.waiting().await;
    assert!(waiting.contains("j-worker-0 cannot be created: failed calling webhook"), "{waiting}");
    assert_eq!(world.events("FailedCreatePod").await, 1);
    world.guard.pods.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(300)).await;
    assert_ne!(world.uid("j-worker-0").await, "");
    assert_eq!(world.waiting().await, "");
}
