//! Webhooks of the operator, asked by the embedded API server as by a cluster's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trainyard_cluster::free_port;
use trainyard_core::admission::{CONDITION, CONFIGURATION, validator, webhook_path};
use trainyard_core::{Catalog, Kind};
use trainyard_host::{Error, Host, OperatorRole, Options, Webhooks, operator_on};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const SECRETS: &str = "/api/v1/namespaces/kubeflow/secrets";
const SECRET: &str = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert";
/// Nothing here takes this many pauses unless it is broken.
const PATIENCE: usize = 4000;
const PAUSE: Duration = Duration::from_millis(20);
const DAY: i64 = 24 * 3600;

/// An API server that checks nothing itself, and what a cluster's administrator installs.
struct World {
    host: Host,
    port: u16,
    /// Seconds that the clock of the operators is ahead.
    ahead: Arc<AtomicI64>,
}

impl World {
    async fn start() -> Self {
        let crds = Options::local().crds;
        let host = Host::start(Options { crds, ..Options::bare() }).await.unwrap();
        let world = Self { host, port: free_port().unwrap(), ahead: Arc::default() };
        world.post("/api/v1/namespaces", &json!({ "metadata": { "name": "kubeflow" } })).await;
        // Pods of this server share the addresses of the machine, so one that says that it runs is enough of a pod.
        let labels = json!({ "control-plane": "kubeflow-training-operator" });
        let service = json!({ "metadata": { "name": "training-operator" }, "spec": {
            "selector": labels, "ports": [{ "port": 443, "targetPort": world.port }] } });
        world.post("/api/v1/namespaces/kubeflow/services", &service).await;
        let mut pod = json!({ "metadata": { "name": "training-operator", "labels": labels }, "spec": {
            "automountServiceAccountToken": false, "containers": [{ "name": "a", "image": "i" }] } });
        world.post("/api/v1/namespaces/kubeflow/pods", &pod).await;
        pod["status"] = json!({ "phase": "Running" });
        let path = "/api/v1/namespaces/kubeflow/pods/training-operator/status";
        world.send(Method::PUT, path, &pod).await.unwrap();
        world
    }

    async fn configure(&self) {
        let kinds = Catalog::default().kinds.iter();
        let entries: Vec<Value> = kinds
            .map(|kind| {
                let service = json!({ "namespace": "kubeflow", "name": "training-operator", "path": webhook_path(kind) });
                json!({ "name": validator(kind), "clientConfig": { "service": service }, "sideEffects": "None",
                    "matchConditions": [{ "name": "c", "expression": CONDITION }], "admissionReviewVersions": ["v1"], "rules": [{ "apiGroups": [kind.group], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": [kind.plural] }] })
            })
            .collect();
        let configuration = json!({ "metadata": { "name": CONFIGURATION }, "webhooks": entries });
        self.post(CONFIGURATIONS, &configuration).await;
    }

    async fn operator(&self, port: u16) -> Result<OperatorRole, Error> {
        self.operator_with(self.client(), port).await
    }

    async fn operator_with(&self, client: Client, port: u16) -> Result<OperatorRole, Error> {
        let ahead = Arc::clone(&self.ahead);
        let real = trainyard_operator::system_clock();
        let clock: trainyard_operator::Clock = Arc::new(move || {
            Timestamp::from_second(real().as_second() + ahead.load(Ordering::SeqCst)).unwrap()
        });
        let webhooks = Webhooks {
            port,
            service: "training-operator".into(),
            secret: "training-operator-webhook-cert".into(),
            namespace: "kubeflow".into(),
        };
        let options = trainyard_operator::Options::default();
        let role = operator_on(client.clone(), Catalog::default(), options)?;
        role.with_webhooks(client, Catalog::default(), webhooks, clock).await
    }

    fn client(&self) -> Client {
        self.host.client()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        self.client().request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &json!({})).await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) {
        self.send(Method::POST, path, body).await.unwrap();
    }

    /// The files in the Secret, once they are others than these.
    async fn files(&self, before: &Value) -> Value {
        for _ in 0..PATIENCE {
            if let Ok(secret) = self.send(Method::GET, SECRET, &json!({})).await
                && secret["data"]["tls.key"].is_string()
                && secret["data"] != *before
            {
                return secret["data"].clone();
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the Secret did not change");
    }

    /// Waits until every entry names the authority.
    async fn believed(&self, ca: &Value) {
        let path = format!("{CONFIGURATIONS}/{CONFIGURATION}");
        let names = |entry: &Value| entry["clientConfig"]["caBundle"] == *ca;
        for _ in 0..PATIENCE {
            if self.get(&path).await["webhooks"].as_array().unwrap().iter().all(names) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the configuration does not name the authority");
    }

    /// What is said to a job without an image, once the webhook can be asked.
    async fn denial(&self) -> String {
        let (kind, job) = job("");
        let path = jobs(kind);
        let mut last = String::new();
        for _ in 0..PATIENCE {
            match self.send(Method::POST, &path, &job).await {
                Err(kube::Error::Api(status)) if status.message.contains("denied the request") => {
                    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
                    return status.message.clone();
                }
                Err(kube::Error::Api(status)) if status.message.contains("failed calling") => {
                    last = status.message;
                }

                other => panic!("{other:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the webhook does not answer: {last}");
    }
}

fn job(image: &str) -> (&'static Kind, Value) {
    let kind = Catalog::default().kinds[0];
    let facts = Catalog::default().framework(kind.framework).unwrap().facts();
    let template = json!({ "spec": { "containers": [{ "name": facts.container, "image": image }] } });
    let job = json!({ "apiVersion": kind.api_version(), "kind": kind.name, "metadata": { "name": "a" },
        "spec": { kind.replica_specs: { facts.followers: { "template": template } } } });
    (kind, job)
}

fn jobs(kind: &Kind) -> String {
    format!("/apis/{}/namespaces/default/{}", kind.api_version(), kind.plural)
}

#[tokio::test]
async fn replicas_share_certificates_and_renew_them_while_they_run() {
    let world = World::start().await;
    world.configure().await;
    // Ten months ago: the API server has the right time.
    world.ahead.store(-300 * DAY, Ordering::SeqCst);
    world.post(SECRETS, &json!({ "metadata": { "name": "training-operator-webhook-cert" } })).await;
    let shutdown = CancellationToken::new();
    let mut running = Vec::new();
    for port in [world.port, free_port().unwrap()] {
        let role = world.operator(port).await.unwrap();
        let health = role.health();
        running.push(tokio::spawn(role.run(shutdown.clone())));
        health.until_ready().await;
    }
    let first = world.files(&Value::Null).await;
    world.believed(&first["ca.crt"]).await;
    let kind = Catalog::default().kinds[0];
    let denied =
        format!("admission webhook \"{}\" denied the request: spec.{}", validator(kind), kind.replica_specs);
    assert!(world.denial().await.starts_with(&denied));
    // Today both of them see that it is time, and one of them renews.
    world.ahead.store(0, Ordering::SeqCst);
    let second = world.files(&first).await;
    assert_eq!(second["ca.crt"], first["ca.crt"]);
    assert!(world.denial().await.starts_with(&denied));
    // Somebody deletes it: a new authority, which is told to the API server.
    world.send(Method::DELETE, SECRET, &json!({})).await.unwrap();
    let third = world.files(&second).await;
    assert_ne!(third["ca.crt"], first["ca.crt"]);
    world.believed(&third["ca.crt"]).await;
    assert!(world.denial().await.starts_with(&denied));
    shutdown.cancel();
    for role in running {
        role.await.unwrap().unwrap();
    }
}

/// Nobody serves the webhooks: what is not their business is stored all the same.
#[tokio::test]
async fn a_webhook_that_is_down_stops_only_what_it_would_check() {
    let world = World::start().await;
    let (kind, job) = job("i");
    let (collection, path) = (jobs(kind), format!("{}/a", jobs(kind)));
    world.post(&collection, &job).await;
    world.configure().await;
    let fails = |result: Result<Value, kube::Error>| match result {
        Err(kube::Error::Api(status)) => status.message.contains("failed calling webhook"),
        other => panic!("{other:?}"),
    };
    let mut other = job.clone();
    other["metadata"]["name"] = "b".into();
    assert!(fails(world.send(Method::POST, &collection, &other).await));
    let stored = world.get(&path).await;
    let with = |pointer: &str, value: Value| {
        let mut changed = stored.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        if changed.pointer(parent).is_none() {
            changed["metadata"]["annotations"] = json!({});
        }
        changed.pointer_mut(parent).unwrap()[name.replace("~1", "/")] = value;
        changed
    };
    let annotated =
        |name: &str| with(&format!("/metadata/annotations/{}", name.replace('/', "~1")), json!("x"));
    let limited = with("/spec/runPolicy", json!({ "backoffLimit": 7 }));
    assert!(fails(world.send(Method::PUT, &path, &limited).await));
    assert!(fails(world.send(Method::PUT, &path, &annotated("trainyard.dev/start-deadline-seconds")).await));
    for free in [
        annotated("trainyard.dev/record"),
        annotated("example.com/a"),
        with("/metadata/labels", json!({ "a": "b" })),
    ] {
        let mut free = free;
        free["metadata"]["resourceVersion"] = world.get(&path).await["metadata"]["resourceVersion"].clone();
        world.send(Method::PUT, &path, &free).await.unwrap();
    }
}

#[tokio::test]
async fn a_port_is_taken_only_when_somebody_asks() {
    let world = World::start().await;
    let taken = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    assert!(world.operator(port).await.is_ok(), "there is no configuration");
    world.configure().await;
    let error = world.operator(port).await.unwrap_err().to_string();
    assert!(error.contains(&format!("port {port}")) && error.contains("--webhook-server-port"), "{error}");
}

#[tokio::test]
async fn without_its_secret_the_operator_works_on_jobs_and_goes_on_trying() {
    let world = World::start().await;
    world.configure().await;
    let may: Arc<AtomicBool> = Arc::default();
    let granted = Arc::clone(&may);
    let guard = middleware::from_fn(move |request: axum::extract::Request, next: Next| {
        let refused = request.uri().path().contains("/secrets") && !granted.load(Ordering::SeqCst);
        async move {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "secrets is forbidden" });
            if refused {
                (StatusCode::FORBIDDEN, status.to_string()).into_response()
            } else {
                next.run(request).await
            }
        }
    });
    let client = Client::new(world.host.router().layer(guard), "default");
    let role = world.operator_with(client, world.port).await.unwrap();
    let (health, shutdown) = (role.health(), CancellationToken::new());
    let running = tokio::spawn(role.run(shutdown.clone()));
    // The webhook of this kind is not asked, so that there is a job.
    let (kind, job) = job("i");
    let path = format!("{CONFIGURATIONS}/{CONFIGURATION}");
    let mut configuration = world.get(&path).await;
    configuration["webhooks"].as_array_mut().unwrap().retain(|entry| entry["name"] != validator(kind));
    world.send(Method::PUT, &path, &configuration).await.unwrap();
    world.post(&jobs(kind), &job).await;
    while health.stats().writes == 0 {
        tokio::time::sleep(PAUSE).await;
    }
    assert!(!health.ready(), "it says that something is missing");
    may.store(true, Ordering::SeqCst);
    health.until_ready().await;
    assert!(world.get(SECRET).await["data"]["tls.crt"].is_string(), "it made the Secret itself");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
