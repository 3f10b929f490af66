//! An API server and an operator in one process.

use std::sync::Arc;

use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::Server;
use trainyard_operator::{Catalog, Clock, Health, Operator, Options};

const DEFINITIONS: [&str; 2] = [
    include_str!("../../../../config/crd/bases/kubeflow.org_pytorchjobs.yaml"),
    include_str!("../../../../config/crd/bases/kubeflow.org_tfjobs.yaml"),
];

pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) health: Health,
    pub(crate) clock: Clock,
    pub(crate) shutdown: CancellationToken,
    _server: Server,
}

/// 2026-01-01 plus whatever tokio's clock says.
pub(crate) fn clock() -> Clock {
    let start = Instant::now();
    let epoch = Timestamp::from_second(1_767_225_600).unwrap();
    Arc::new(move || epoch + SignedDuration::try_from(start.elapsed()).unwrap())
}

pub(crate) async fn server(clock: &Clock) -> (Server, Client) {
    let time = Arc::clone(clock);
    let server = Server::open(Server::options().history(200_000).clock(move || time())).unwrap();
    let client = Client::new(server.router(), "default");
    for text in DEFINITIONS {
        let crd: Value = serde_saphyr::from_str(text).unwrap();
        send(&client, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
            .await
            .unwrap();
    }
    for _ in 0..100 {
        if get(&client, "/apis/kubeflow.org/v1/pytorchjobs").await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    (server, client)
}

async fn operator(
    client: &Client,
    clock: &Clock,
    change: impl FnOnce(&mut Options),
    shutdown: &CancellationToken,
) -> Health {
    let mut options = Options { clock: Arc::clone(clock), ..Options::default() };
    change(&mut options);
    let operator = Operator::new(client.clone(), Catalog::default(), options).unwrap();
    let health = operator.health();
    tokio::spawn(operator.run(shutdown.clone()));
    health.until_ready().await;
    health
}

impl Plane {
    pub(crate) async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let clock = clock();
        let (server, client) = server(&clock).await;
        let shutdown = CancellationToken::new();
        let health = operator(&client, &clock, change, &shutdown).await;
        Self { client, health, clock, shutdown, _server: server }
    }

    /// Another operator on the same server.
    pub(crate) async fn again(&self, change: impl FnOnce(&mut Options)) -> Health {
        operator(&self.client, &self.clock, change, &CancellationToken::new()).await
    }

    pub(crate) async fn create(&self, job: &Value) -> Value {
        send(&self.client, Method::POST, "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", job)
            .await
            .unwrap()
    }

    pub(crate) async fn job(&self, name: &str) -> Value {
        get(&self.client, &format!("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{name}"))
            .await
            .unwrap_or_default()
    }

    pub(crate) async fn patch_job(&self, name: &str, patch: Value) {
        let path = format!("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{name}");
        send(&self.client, Method::PATCH, &path, &patch).await.unwrap();
    }

    pub(crate) async fn names(&self, plural: &str) -> Vec<String> {
        let list = get(&self.client, &format!("/api/v1/namespaces/default/{plural}")).await.unwrap();
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        let list = get(&self.client, "/api/v1/namespaces/default/events").await.unwrap();
        let mut events: Vec<String> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| format!("{} {}", e["reason"].as_str().unwrap(), e["message"].as_str().unwrap()))
            .collect();
        events.sort();
        events
    }

    pub(crate) async fn set_phase(&self, pod: &str, status: Value) {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        send(&self.client, Method::PATCH, &path, &json!({ "status": status })).await.unwrap();
    }

    /// Lets everything that follows from what happened happen.
    pub(crate) async fn settle(&self) {
        sleep(Duration::from_secs(2)).await;
    }

    pub(crate) async fn conditions(&self, name: &str) -> String {
        let job = self.job(name).await;
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let shapes = conditions.iter().map(|c| {
            format!(
                "{}={}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap().chars().next().unwrap()
            )
        });
        shapes.collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn pytorch(name: &str, workers: u32) -> Value {
    let template =
        json!({ "spec": { "containers": [{ "name": "pytorch", "image": "i", "command": ["train"] }] } });
    json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "runPolicy": { "cleanPodPolicy": "All" },
            "pytorchReplicaSpecs": {
                "Master": { "replicas": 1, "restartPolicy": "OnFailure", "template": template },
                "Worker": { "replicas": workers, "restartPolicy": "OnFailure", "template": template },
            },
        },
    })
}

pub(crate) async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    client.request(request.body(serde_json::to_vec(body).unwrap()).unwrap()).await
}
