//! Against a server that makes up its objects, and counts what it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::routing::get;
use serde_json::{Value, json};
use trainyard_core::Catalog;

use super::*;

const REPLICAS: usize = 4;

/// Objects by `namespace/name`, in order, and the number of requests.
#[derive(Clone, Default)]
struct World {
    jobs: Arc<BTreeMap<String, Value>>,
    pods: Arc<BTreeMap<String, Value>>,
    requests: Arc<AtomicUsize>,
}

fn owner(job: &str) -> Value {
    json!([{ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": job, "uid": format!("uid-{job}"),
             "controller": true }])
}

fn pod(job: &str, name: &str) -> (String, Value) {
    let labels = json!({ "training.kubeflow.org/job-name": job });
    let meta = json!({ "name": name, "namespace": "default", "uid": name, "labels": labels,
                       "ownerReferences": owner(job) });
    let restarted = json!([{ "name": "pytorch", "restartCount": 1, "state": { "running": {} } }]);
    let status = json!({ "phase": "Running", "containerStatuses": restarted });
    (format!("default/{name}"), json!({ "metadata": meta, "spec": {}, "status": status }))
}

fn job(name: &str) -> (String, Value) {
    let template = json!({ "spec": { "containers": [{ "name": "pytorch", "image": "i" }] } });
    let worker = json!({ "replicas": REPLICAS, "restartPolicy": "OnFailure", "template": template });
    let meta = json!({ "name": name, "namespace": "default", "uid": format!("uid-{name}") });
    (
        format!("default/{name}"),
        json!({ "metadata": meta, "spec": { "pytorchReplicaSpecs": { "Worker": worker } } }),
    )
}

impl World {
    /// Jobs whose names begin with each other's: `job-1`, `job-10`, `job-1-a`.
    fn of(jobs: usize) -> Self {
        let names =
            || (0..jobs).map(|n| if n % 7 == 0 { format!("job-{}-a", n / 2) } else { format!("job-{n}") });
        let pods = names().flat_map(|job| {
            (0..REPLICAS).map(move |index| pod(&job, &format!("{job}-worker-{index}"))).collect::<Vec<_>>()
        });
        Self {
            jobs: Arc::new(names().map(|name| job(&name)).collect()),
            pods: Arc::new(pods.collect()),
            requests: Arc::default(),
        }
    }

    fn cluster(&self) -> Cluster {
        let router = Router::new()
            .route("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", get(jobs))
            .route("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{name}", get(one))
            .route("/api/v1/namespaces/default/pods", get(pods))
            .route("/api/v1/namespaces/default/services", get(none))
            .with_state(self.clone());
        Cluster::of(kube::Client::new(router, "default"), "default")
    }

    fn page(&self, all: &BTreeMap<String, Value>, query: &BTreeMap<String, String>) -> String {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let after = query.get("continue").cloned().unwrap_or_default();
        let limit: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let job = query.get("labelSelector").and_then(|selector| selector.split_once('='));
        let meant =
            |object: &&Value| job.is_none_or(|(label, job)| object["metadata"]["labels"][label] == job);
        let from = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let rest: Vec<(&String, &Value)> = all.range(from).filter(|(_, object)| meant(object)).collect();
        let here = rest.iter().take(limit);
        let token = if rest.len() > limit { rest[limit - 1].0.as_str() } else { "" };
        let items: Vec<&Value> = here.map(|(_, object)| *object).collect();
        json!({ "metadata": { "continue": token, "resourceVersion": "1" }, "items": items }).to_string()
    }
}

/// The parts of a query.
fn parts(query: Option<String>) -> BTreeMap<String, String> {
    let query = query.unwrap_or_default();
    let pairs = query.split('&').filter_map(|part| part.split_once('='));
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

async fn jobs(State(world): State<World>, RawQuery(query): RawQuery) -> String {
    world.page(&world.jobs, &parts(query))
}

async fn pods(State(world): State<World>, RawQuery(query): RawQuery) -> String {
    world.page(&world.pods, &parts(query))
}

async fn none(State(world): State<World>, RawQuery(query): RawQuery) -> String {
    world.page(&BTreeMap::new(), &parts(query))
}

async fn one(State(world): State<World>, Path(name): Path<String>) -> String {
    world.requests.fetch_add(1, Ordering::Relaxed);
    world.jobs[&format!("default/{name}")].to_string()
}

/// Each job with its restarts, how many requests it took, and how many children were known at once.
async fn gathered(world: &World) -> (BTreeMap<String, u32>, usize, usize) {
    let cluster = world.cluster();
    let kind = Catalog::default().kind("PyTorchJob").unwrap();
    let served =
        json!({ "resources": [{ "name": "pytorchjobs", "kind": "PyTorchJob", "namespaced": true }] });
    let resource = Resource::read("kubeflow.org", "v1", &served).remove(0);
    let mut restarts = BTreeMap::new();
    let kinds = [(kind, resource)];
    let gathering = each(&cluster, &kinds, Some("default"), |job, family| {
        restarts.insert(job.name().to_owned(), family.restarts());
    });
    let most = gathering.await.unwrap();
    (restarts, world.requests.load(Ordering::Relaxed), most)
}

#[tokio::test]
async fn jobs_are_whole_and_little_is_held() {
    let (few, many) = (World::of(1000), World::of(4000));
    let (jobs, requests, most) = gathered(&few).await;
    assert_eq!(jobs.len(), 1000);
    assert!(jobs.values().all(|restarts| *restarts == 4), "{jobs:?}");
    // Pages of 500: 2 of jobs, 8 of pods, 1 of services.
    assert_eq!(requests, 11);
    let (jobs, requests, more) = gathered(&many).await;
    assert!(jobs.len() == 4000 && jobs.values().all(|restarts| *restarts == 4));
    assert_eq!(requests, 41);
    assert!(most <= 3 * REPLICAS && more <= 3 * REPLICAS, "{most} children at once, then {more}");
}

#[tokio::test]
async fn a_child_with_a_name_of_its_own_is_found_too() {
    let mut world = World::of(10);
    let odd = ["aaa", "job-2x", "zzz"].map(|name| pod("job-2", name));
    let stranger = pod("nobody", "stranger");
    let pods: BTreeMap<String, Value> =
        world.pods.iter().map(|(key, pod)| (key.clone(), pod.clone())).chain(odd).chain([stranger]).collect();
    world.pods = Arc::new(pods);
    let (jobs, _, _) = gathered(&world).await;
    assert_eq!(jobs["job-2"], 7);
    assert_eq!(jobs["job-1"], 4);
}
