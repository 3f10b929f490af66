//! The node as a role of a host: its logs and figures become part of the API.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use trainyard_apiserver::logs::{LogError, LogRequest, LogStream, PodLogs};
use trainyard_apiserver::selector::LabelSelector;
use trainyard_apiserver::{Extension, ExtensionResource};
use trainyard_node::{ContainerUsage, LogQuery, Node, NodeLogs, NodeMetrics, NodeStreams};

use crate::Clock;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// A figure may be this old.
const FRESH: Duration = Duration::from_secs(2);

/// The node that is to come: the API is there before it, because the node is a client of the API. It is let go when the
/// host ends, for otherwise each would keep the other, and the store with them.
#[derive(Clone, Default)]
pub(crate) struct Machine(Arc<Mutex<Option<Parts>>>);

#[derive(Clone)]
struct Parts {
    logs: NodeLogs,
    metrics: NodeMetrics,
    streams: NodeStreams,
    name: String,
    ready: watch::Receiver<bool>,
}

impl Machine {
    pub(crate) fn set(&self, name: String, node: &Node) {
        let (logs, metrics, streams, ready) = (node.logs(), node.metrics(), node.streams(), node.ready());
        let parts = Parts { logs, metrics, streams, name, ready };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(parts);
    }

    /// The node has ended.
    pub(crate) fn clear(&self) {
        // Dropped after the lock: it may be the last of much.
        let _parts = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn parts(&self) -> Option<Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn logs(&self) -> Option<NodeLogs> {
        self.parts().map(|parts| parts.logs)
    }

    pub(crate) fn metrics(&self) -> Option<NodeMetrics> {
        self.parts().map(|parts| parts.metrics)
    }

    pub(crate) fn streams(&self) -> Option<NodeStreams> {
        self.parts().map(|parts| parts.streams)
    }

    /// Returns once the node has seen all pods; at once without a node.
    pub(crate) async fn until_ready(&self) {
        if let Some(Parts { mut ready, .. }) = self.parts() {
            // A node that ended before is reported by its role.
            let _ = ready.wait_for(|ready| *ready).await;
        }
    }
}

/// The run that a container's status calls its last. While it waits to be started again that is the newest.
fn last_run(pod: &Value, container: &str) -> Option<u32> {
    let lists =
        ["containerStatuses", "initContainerStatuses"].map(|list| pod.pointer(&format!("/status/{list}")));
    let mut statuses = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let own = statuses.find(|status| status.get("name").and_then(Value::as_str) == Some(container))?;
    let id = own.pointer("/lastState/terminated/containerID").and_then(Value::as_str)?;
    id.rsplit('/').next()?.parse().ok()
}

pub(crate) fn text(pod: &Value, field: &str) -> String {
    let found = pod.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

impl PodLogs for Machine {
    fn remembers(&self, namespace: &str, pod: &Value, container: &str) -> bool {
        let found =
            |logs: NodeLogs| logs.find(namespace, &text(pod, "name"), &text(pod, "uid"), container, true);
        self.logs().and_then(found).is_some()
    }

    fn read(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>> {
        let logs = self.logs();
        Box::pin(async move {
            let (name, uid) = (text(&request.pod, "name"), text(&request.pod, "uid"));
            let logs = logs.ok_or_else(|| LogError::Internal("the node has not started yet".into()))?;
            let (container, previous) = (&request.container, request.previous);
            let last = last_run(&request.pod, container).filter(|_| previous);
            let looking = spawn_blocking({
                let (logs, name, container) = (logs.clone(), name.clone(), container.clone());
                let namespace = request.namespace.clone();
                move || {
                    last.and_then(|number| logs.run(&uid, &container, number))
                        .or_else(|| logs.find(&namespace, &name, &uid, &container, previous))
                }
            });
            let found = looking.await.map_err(|error| LogError::Internal(error.to_string()))?;
            let dir = found.ok_or_else(|| {
                let which = if previous { "previous terminated container" } else { "container" };
                LogError::BadRequest(format!("{which} {container:?} in pod {name:?} not found"))
            })?;
            let query = LogQuery {
                follow: request.follow,
                tail_lines: request.tail_lines,
                since: request.since,
                limit_bytes: request.limit_bytes,
                timestamps: request.timestamps,
                ..LogQuery::default()
            };
            Ok(logs.read(dir, query).boxed())
        })
    }
}

#[derive(Clone)]
struct Meter {
    machine: Machine,
    clock: Clock,
}

/// `metrics.k8s.io`, so that `kubectl top` and `trainyard top` find what they look for on a cluster.
pub(crate) fn metrics(machine: Machine, clock: Clock) -> Extension {
    let resource = |name: &str, kind: &str, namespaced| ExtensionResource {
        name: name.into(),
        singular: String::new(),
        kind: kind.into(),
        namespaced,
        verbs: vec!["get".into(), "list".into()],
    };
    let base = format!("/apis/{GROUP}/{VERSION}");
    let router = Router::new()
        .route(&format!("{base}/pods"), get(all_pods))
        .route(&format!("{base}/namespaces/{{namespace}}/pods"), get(pods_of))
        .route(&format!("{base}/namespaces/{{namespace}}/pods/{{name}}"), get(one_pod))
        .route(&format!("{base}/nodes"), get(nodes))
        .route(&format!("{base}/nodes/{{name}}"), get(one_node))
        .with_state(Meter { machine, clock });
    Extension {
        group: GROUP.into(),
        version: VERSION.into(),
        resources: vec![resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
        router,
    }
}

impl Meter {
    async fn usage(&self) -> Vec<ContainerUsage> {
        match self.machine.metrics() {
            Some(metrics) => metrics.measure(FRESH).await,
            None => Vec::new(),
        }
    }

    async fn pods(&self, keep: impl Fn(&ContainerUsage) -> bool) -> Vec<Value> {
        let now = (self.clock)();
        let mut usage = self.usage().await;
        usage.retain(keep);
        usage.sort_by(|a, b| (&a.namespace, &a.pod, &a.container).cmp(&(&b.namespace, &b.pod, &b.container)));
        usage
            .chunk_by(|a, b| a.uid == b.uid)
            .filter_map(|of_pod| {
                let first = of_pod.first()?;
                let containers: Vec<Value> = of_pod
                    .iter()
                    .map(|c| json!({ "name": c.container, "usage": quantities(c.cpus, c.memory) }))
                    .collect();
                let metadata = json!({ "name": first.pod, "namespace": first.namespace, "labels": first.labels, "creationTimestamp": stamp(now) });
                Some(json!({
                    "kind": "PodMetrics", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
                    "timestamp": stamp(now), "window": "10s", "containers": containers,
                }))
            })
            .collect()
    }

    async fn node(&self) -> Option<Value> {
        let name = self.machine.parts()?.name;
        let (now, usage) = ((self.clock)(), self.usage().await);
        let (cpus, memory) =
            usage.iter().fold((0.0, 0), |(cpus, memory), c| (cpus + c.cpus, memory + c.memory));
        Some(json!({
            "kind": "NodeMetrics", "apiVersion": format!("{GROUP}/{VERSION}"),
            "metadata": { "name": name, "creationTimestamp": stamp(now) },
            "timestamp": stamp(now), "window": "10s", "usage": quantities(cpus, memory),
        }))
    }
}

fn quantities(cpus: f64, memory: u64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest integer there is")]
    let nanos = (cpus * 1e9).round() as i64;
    json!({ "cpu": format!("{nanos}n"), "memory": format!("{}Ki", memory / 1024) })
}

fn stamp(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn list(kind: &str, items: Vec<Value>) -> Json<Value> {
    Json(json!({ "kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items }))
}

fn found(what: &str, name: &str, object: Option<Value>) -> Response {
    let Some(object) = object else {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
            "message": format!("{what}.{GROUP} {name:?} not found"), "code": 404,
            "details": { "name": name, "group": GROUP, "kind": what },
        });
        return (StatusCode::NOT_FOUND, Json(status)).into_response();
    };
    Json(object).into_response()
}

async fn all_pods(State(meter): State<Meter>, query: Query<Selection>) -> Response {
    selected(&meter, &query, |_| true).await
}

async fn pods_of(
    State(meter): State<Meter>,
    Path(namespace): Path<String>,
    query: Query<Selection>,
) -> Response {
    selected(&meter, &query, |usage| usage.namespace == namespace).await
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selection {
    label_selector: String,
}

async fn selected(meter: &Meter, selection: &Selection, keep: impl Fn(&ContainerUsage) -> bool) -> Response {
    let selector = match LabelSelector::parse(&selection.label_selector) {
        Ok(selector) => selector,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let matches = |usage: &ContainerUsage| {
        let labels = usage.labels.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        selector.matches(Some(&labels))
    };
    list("PodMetricsList", meter.pods(|usage| keep(usage) && matches(usage)).await).into_response()
}

async fn one_pod(State(meter): State<Meter>, Path((namespace, name)): Path<(String, String)>) -> Response {
    let mut pods = meter.pods(|usage| usage.namespace == namespace && usage.pod == name).await;
    found("pods", &name, pods.pop())
}

async fn nodes(State(meter): State<Meter>) -> Json<Value> {
    list("NodeMetricsList", meter.node().await.into_iter().collect())
}

async fn one_node(State(meter): State<Meter>, Path(name): Path<String>) -> Response {
    let node = meter.node().await;
    let node = node.filter(|node| node.pointer("/metadata/name").and_then(Value::as_str) == Some(&*name));
    found("nodes", &name, node)
}
