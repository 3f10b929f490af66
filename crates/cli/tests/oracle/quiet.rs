//! When an operator has nothing left to do.
//!
//! Nobody can ask it. But its watches deliver in order, and what it was told first it does first: so a new job (a canary)
//! is created for each kind, and brought to Running. Once its status says so, everything before it was seen. When that
//! happens several times in a row and nothing else changes meanwhile, the operator is done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures::future::join_all;
use http::Request;
use serde_json::{Value, json};
use trainyard_testkit::rest::{Rest, name, text};

use crate::api::{CHILDREN, JOBS, collection_of, items, pods};
use crate::case::{Case, Setting};
use crate::kubelet::{LONG, PAUSE};

/// How often in a row nothing may change.
const ROUNDS: u32 = 2;
pub(crate) const CANARY: &str = "canary-";

/// A kind of job and a setting that some case uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    setting: Setting,
    kind: String,
}

pub(crate) struct Quiet {
    /// Where something happens.
    places: BTreeSet<Place>,
    number: usize,
}

impl Quiet {
    pub(crate) fn of(cases: &[Case]) -> Self {
        let mut quiet = Self { places: BTreeSet::new(), number: 0 };
        quiet.narrow(cases.iter());
        quiet
    }

    /// From now on only these cases matter.
    pub(crate) fn narrow<'a>(&mut self, cases: impl Iterator<Item = &'a Case>) {
        let place = |case: &Case| Place { setting: case.setting, kind: case.kind().to_owned() };
        self.places = cases.map(place).collect();
    }

    /// Returns when the operator is done; `alive` fails when it no longer runs.
    pub(crate) async fn wait(&mut self, rest: &Rest, mut alive: impl FnMut()) {
        let begun = Instant::now();
        let mut rounds = 0;
        let mut before = self.versions(rest).await;
        while rounds < ROUNDS {
            alive();
            self.pass(rest, &mut alive).await;
            let after = self.versions(rest).await;
            rounds = if before == after { rounds + 1 } else { 0 };
            let changes = || after.iter().filter(|(key, version)| before.get(*key) != Some(*version));
            assert!(begun.elapsed() < LONG, "it never stops: {:?}", changes().collect::<Vec<_>>());
            before = after;
        }
    }

    /// A canary of each kind comes to life.
    pub(crate) async fn pass(&mut self, rest: &Rest, mut alive: impl FnMut()) {
        self.number += 1;
        let canary = format!("{CANARY}{}", self.number);
        let all = join_all(self.places.iter().map(|place| lives(rest, place, &canary)));
        tokio::pin!(all);
        loop {
            tokio::select! {
                _ = &mut all => return,
                () = tokio::time::sleep(PAUSE * 10) => alive(),
            }
        }
    }

    /// Waits until what was told about the last canaries can be read: events before them can be read then, too.
    pub(crate) async fn events(&self, rest: &Rest) {
        let canary = format!("{CANARY}{}", self.number);
        let begun = Instant::now();
        for place in &self.places {
            let called = format!("{canary}-{}", place.kind.to_lowercase());
            let query = format!("?fieldSelector=involvedObject.name={called}");
            let path = format!("/api/v1/namespaces/{}/events{query}", place.setting.namespace());
            while items(rest, &path).await.is_empty() {
                assert!(begun.elapsed() < LONG, "no event about {canary} of {place:?}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The version of each object in the namespaces of the cases, but for the canaries'.
    async fn versions(&self, rest: &Rest) -> BTreeMap<String, String> {
        let settings: BTreeSet<Setting> = self.places.iter().map(|place| place.setting).collect();
        let children = settings.iter().flat_map(|setting| {
            CHILDREN
                .iter()
                .map(|(plural, root)| format!("{root}/namespaces/{}/{plural}", setting.namespace()))
        });
        let jobs = self.places.iter().map(|place| {
            let kind = json!({ "apiVersion": JOBS, "kind": place.kind });
            collection_of(&kind, place.setting.namespace())
        });
        let paths: Vec<String> = children.chain(jobs).collect();
        let lists = join_all(paths.iter().map(|path| metadata(rest, path))).await;
        let found = paths.iter().zip(lists).flat_map(|(path, list)| {
            let others = list.into_iter().filter(|object| !name(object).starts_with(CANARY));
            others.map(move |object| {
                (format!("{path}/{}", name(&object)), text(&object, "/metadata/resourceVersion").to_owned())
            })
        });
        found.collect()
    }
}

/// The metadata of what is in a collection; nothing where there is no such kind.
async fn metadata(rest: &Rest, path: &str) -> Vec<Value> {
    let request = Request::get(path)
        .header("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        .body(Vec::new())
        .unwrap();
    match rest.client().request::<Value>(request).await {
        Ok(list) => list["items"].as_array().cloned().unwrap_or_default(),
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => panic!("{path}: {error}"),
    }
}

/// The smallest job of a kind, and the role whose only pod makes it Running.
fn canary(kind: &str, name: &str) -> (Value, &'static str) {
    let (field, container, role) = match kind {
        "TFJob" => ("tfReplicaSpecs", "tensorflow", "Worker"),
        "PyTorchJob" => ("pytorchReplicaSpecs", "pytorch", "Worker"),
        "XGBoostJob" => ("xgbReplicaSpecs", "xgboost", "Master"),
        "PaddleJob" => ("paddleReplicaSpecs", "paddle", "Worker"),
        "JAXJob" => ("jaxReplicaSpecs", "jax", "Worker"),
        "MPIJob" => ("mpiReplicaSpecs", "mpi", "Launcher"),
        other => panic!("{other}: a kind without a canary"),
    };
    let template = json!({ "spec": { "containers": [{ "name": container, "image": "none" }] } });
    let mut job = json!({ "apiVersion": JOBS, "kind": kind, "metadata": { "name": name },
        "spec": { field: { role: { "replicas": 1, "template": template } } } });
    if kind == "MPIJob" {
        job["spec"][field]["Worker"] = json!({ "replicas": 1, "template": template });
    }
    (job, role)
}

/// A change that means nothing. The peer may miss that a PodGroup of its own is there, and then waits for any event.
pub(crate) fn nudge(number: u64) -> Value {
    json!({ "metadata": { "annotations": { "nudge": number.to_string() } } })
}

/// Creates a canary, lets its pod run, and returns when its status says so.
async fn lives(rest: &Rest, place: &Place, number: &str) {
    let namespace = place.setting.namespace();
    // Kinds share the names of their pods.
    let called = format!("{number}-{}", place.kind.to_lowercase());
    let (job, role) = canary(&place.kind, &called);
    let jobs = collection_of(&job, namespace);
    let begun = Instant::now();
    let mut nudged = 0;
    let mut pause = async |stage: &str| {
        if begun.elapsed().as_secs() > nudged {
            nudged = begun.elapsed().as_secs();
            let _not_there_yet = rest.merge(&format!("{jobs}/{called}"), &nudge(nudged)).await;
        }
        if begun.elapsed() > LONG {
            let job = rest.get(&format!("{jobs}/{called}")).await;
            panic!("{called} in {namespace} waits for {stage}: {job:?}");
        }
        tokio::time::sleep(PAUSE).await;
    };
    while rest.post(&jobs, &job).await.is_err() {
        pause("the webhook").await;
    }
    let index = if role == "Launcher" { "" } else { "-0" };
    let pod = format!("{}/{called}-{}{index}", pods(namespace), role.to_lowercase());
    let group = format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/{called}");
    while rest.merge(&format!("{pod}/status"), &json!({ "status": { "phase": "Running" } })).await.is_err() {
        if place.setting == Setting::Volcano {
            let admitted = json!({ "status": { "phase": "Inqueue" } });
            let _not_there_yet = rest.merge(&format!("{group}/status"), &admitted).await;
        }
        pause("its pod").await;
    }
    let active = format!("/status/replicaStatuses/{role}/active");
    while rest.get(&format!("{jobs}/{called}")).await.unwrap().pointer(&active) != Some(&json!(1)) {
        pause("its status").await;
    }
}
