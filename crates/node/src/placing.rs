//! Carrying out what the scheduler decides: binding pods to this machine, and saying why others wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::schedule::{Decision, GPUS, PodKey, Waiting, schedule, split};
use crate::shared::Shared;
use crate::watch::Odd;

/// Why a pod waits may change with every pod that ends; it is written at most this often.
const REWORD: SignedDuration = SignedDuration::from_secs(5);
/// The first pod of a gang speaks for all of them, and is what people look at.
const REWORD_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// The others are told what the first was told if that still holds after this long: a gang whose pods are being created has
/// another reason with each of them.
const SETTLED: SignedDuration = SignedDuration::from_secs(2);
/// And at most this often for all pods together.
const REWORD_ALL: SignedDuration = SignedDuration::from_millis(50);
/// After a write that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Bindings that are written at once, and as many conditions: a binding waits for no explanation.
const WRITES: usize = 16;
/// What pods are told while the machine takes none.
const CLOSED: &str =
    "0/1 nodes are available: 1 node(s) were unschedulable: kubectl uncordon opens this machine again";
/// What waits is looked at again after this long even if nothing happens: who waits long gets precedence.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// But not sooner than this.
const SOON: Duration = Duration::from_millis(100);

/// How a binding went.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The watch will show it.
    Bound,
    /// It is to be placed again.
    NotBound(String),
    /// It has changed since: if it still waits, it is told again.
    NotTold(String),
}

pub(crate) struct Placing {
    shared: Arc<Shared>,
    /// Pods that are being bound, with their GPUs: they count as placed until the watch says otherwise.
    assumed: BTreeMap<String, Vec<String>>,
    /// What each waiting pod was told, and when.
    told: BTreeMap<String, (String, Timestamp)>,
    results: mpsc::UnboundedSender<Verdict>,
    bindings: Arc<Semaphore>,
    explanations: Arc<Semaphore>,
}

impl Placing {
    pub(crate) fn new(shared: Arc<Shared>) -> (Self, mpsc::UnboundedReceiver<Verdict>) {
        let (results, verdicts) = mpsc::unbounded_channel();
        let turns = || Arc::new(Semaphore::new(WRITES));
        let (bindings, explanations) = (turns(), turns());
        let (assumed, told) = (BTreeMap::new(), BTreeMap::new());
        (Self { shared, assumed, told, results, bindings, explanations }, verdicts)
    }

    pub(crate) fn settle(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Bound => {}
            Verdict::NotBound(uid) => drop(self.assumed.remove(&uid)),
            Verdict::NotTold(uid) => drop(self.told.remove(&uid)),
        }
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.assumed.remove(uid);
        self.told.remove(uid);
    }

    /// Decides about all pods. Returns after how long to look again.
    pub(crate) fn place<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Option<Duration> {
        let now = self.shared.options.now();
        let by_uid: BTreeMap<&str, &Arc<Pod>> =
            pods.filter_map(|pod| Some((pod.metadata.uid.as_deref()?, pod))).collect();
        self.assumed.retain(|uid, _| by_uid.get(uid.as_str()).is_some_and(|pod| !is_bound(pod)));
        let all = by_uid.values().map(|pod| &***pod);
        let (waiting, placed) = split(all, &self.assumed, &self.shared.options.inventory);
        if waiting.is_empty() {
            return None;
        }
        let decisions = match *self.shared.closed.borrow() {
            true => closed(&waiting),
            false => schedule(&waiting, &placed, &self.shared.options.inventory, now),
        };
        let mut waits = BTreeSet::new();
        let speakers = speakers(&waiting, &decisions);
        let pause = |crowd: usize, least: SignedDuration| {
            REWORD_ALL.saturating_mul(i32::try_from(crowd).unwrap_or(i32::MAX)).max(least)
        };
        let (first, other) = (pause(speakers.firsts, REWORD_FIRST), pause(waiting.len(), REWORD));
        let mut again = LOOK_AGAIN;
        for decision in decisions {
            match decision {
                Decision::Place { pod: key, gpus } => {
                    if let Some(pod) = by_uid.get(key.uid.as_str()) {
                        self.bind(pod, gpus, now);
                    }
                }
                Decision::Wait { pod: key, message, .. } => {
                    if let Some(pod) = by_uid.get(key.uid.as_str()) {
                        let held = match speakers.others.get(&key.uid) {
                            Some(speaker) => self.repeat(speaker, pod, message, now, other),
                            None => self.tell(pod, message, now, first),
                        };
                        again = held.map_or(again, |held| again.min(held.max(SOON)));
                    }
                    waits.insert(key.uid);
                }
            }
        }
        self.told.retain(|uid, _| waits.contains(uid));
        (!waits.is_empty()).then_some(again)
    }

    /// Says on a pod that cannot be read why nothing happens to it.
    pub(crate) fn refuse(&self, odd: Odd) {
        let (shared, turns, now) =
            (Arc::clone(&self.shared), Arc::clone(&self.explanations), self.shared.options.now());
        self.shared.spawn(async move {
            let _turn = turns.acquire().await;
            let api: Api<kube::api::DynamicObject> = Api::namespaced_with(
                shared.client.clone(),
                &odd.namespace,
                &kube::api::ApiResource::erase::<Pod>(&()),
            );
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": format!("this pod cannot be read: {}: correct it and create it again", odd.why),
                "lastTransitionTime": format!("{now:.0}"),
            });
            let patch = json!({ "metadata": { "uid": odd.uid }, "status": { "conditions": [condition] } });
            let params = PatchParams::default();
            if let Err(error) = api.patch_status(&odd.name, &params, &Patch::Merge(patch)).await {
                tracing::warn!(odd.namespace, odd.name, odd.why, %error, "a pod cannot be read, nor told so");
            }
        });
    }

    fn bind(&mut self, pod: &Arc<Pod>, gpus: Vec<String>, now: Timestamp) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.assumed.insert(uid.clone(), gpus.clone());
        let (shared, results, pod) = (Arc::clone(&self.shared), self.results.clone(), Arc::clone(pod));
        let turns = Arc::clone(&self.bindings);
        self.shared.spawn(async move {
            let turn = turns.acquire().await;
            let verdict = match bind(&shared.client, &shared.options.name, &pod, &gpus).await {
                Ok(()) => {
                    let key = PodKey::of(&pod);
                    let node = &shared.options.name;
                    let said = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
                    shared.events.normal(&pod, "Scheduled", &said, now);
                    Verdict::Bound
                }
                Err(error) => {
                    tracing::debug!(pod = ?pod.metadata.name, %error, "a pod was not bound");
                    // An API that refuses everything must not be asked without a pause. Others need not wait for it.
                    drop(turn);
                    tokio::time::sleep(AFTER_FAILURE).await;
                    Verdict::NotBound(uid)
                }
            };
            // Nobody listens any more when the node stops.
            let _ = results.send(verdict);
        });
    }

    /// Tells a pod what the first of its gang was told, if that is no longer news. As [`Self::tell`].
    fn repeat(
        &mut self,
        speaker: &str,
        pod: &Arc<Pod>,
        message: String,
        now: Timestamp,
        pause: SignedDuration,
    ) -> Option<Duration> {
        let settled = |(said, at): &(String, Timestamp)| match *said == message {
            true => SETTLED.checked_sub(now.duration_since(*at)).filter(|left| left.is_positive()),
            false => Some(SETTLED),
        };
        match self.told.get(speaker).map_or(Some(SETTLED), settled) {
            Some(left) => Duration::try_from(left).ok(),
            None => self.tell(pod, message, now, pause),
        }
    }

    /// Tells a pod why it waits; or returns after how long it may be told, if it was told something else just now.
    fn tell(
        &mut self,
        pod: &Arc<Pod>,
        message: String,
        now: Timestamp,
        pause: SignedDuration,
    ) -> Option<Duration> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let before = self.told.get(&uid);
        if let Some((said, at)) = before {
            let left = pause.checked_sub(now.duration_since(*at)).filter(|left| left.is_positive());
            if *said == message || left.is_some() {
                return left.filter(|_| *said != message).and_then(|left| Duration::try_from(left).ok());
            }
        }
        // The condition has the newest reason; one event is enough to find it.
        let first = before.is_none() && !says(pod, &message);
        self.told.insert(uid.clone(), (message.clone(), now));
        let (shared, pod, turns) =
            (Arc::clone(&self.shared), Arc::clone(pod), Arc::clone(&self.explanations));
        let results = self.results.clone();
        self.shared.spawn(async move {
            let turn = turns.acquire().await;
            if first {
                shared.events.warning(&pod, "FailedScheduling", &message, now);
            }
            if let Err(error) = explain(&shared.client, &pod, &message, now).await {
                tracing::debug!(pod = ?pod.metadata.name, %error, "cannot say why a pod waits");
                drop(turn);
                tokio::time::sleep(AFTER_FAILURE).await;
                let _ = results.send(Verdict::NotTold(uid));
            }
        });
        None
    }
}

/// Who speaks for whom: of the pods of a gang that wait for the same, the first by name.
struct Speakers {
    /// The UID of the first, for each pod that is not the first.
    others: BTreeMap<String, String>,
    /// How many are the first.
    firsts: usize,
}

fn speakers(waiting: &[Waiting], decisions: &[Decision]) -> Speakers {
    let gangs: BTreeMap<&str, &str> =
        waiting.iter().filter_map(|pod| Some((&*pod.key.uid, &*pod.gang.as_ref()?.id))).collect();
    let mut groups: BTreeMap<(&str, &str), Vec<&PodKey>> = BTreeMap::new();
    let mut firsts = 0;
    for decision in decisions {
        let Decision::Wait { pod, message, .. } = decision else { continue };
        match gangs.get(&*pod.uid) {
            Some(gang) => groups.entry((gang, message)).or_default().push(pod),
            None => firsts += 1,
        }
    }
    firsts += groups.len();
    let mut others = BTreeMap::new();
    for group in groups.into_values() {
        let Some(first) = group.iter().min() else { continue };
        let rest = group.iter().filter(|pod| pod != &first);
        others.extend(rest.map(|pod| (pod.uid.clone(), first.uid.clone())));
    }
    Speakers { others, firsts }
}

/// Everybody waits while the machine takes no new pods.
fn closed(waiting: &[Waiting]) -> Vec<Decision> {
    let wait =
        |waiting: &Waiting| Decision::Wait { pod: waiting.key.clone(), message: CLOSED.into(), never: false };
    waiting.iter().map(wait).collect()
}

/// Whether the pod says so already.
fn says(pod: &Pod, message: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "PodScheduled" && c.message.as_deref() == Some(message))
}

fn api(client: &Client, pod: &Pod) -> Api<Pod> {
    Api::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
}

/// Binds a pod to a node; the GPUs it may use travel with the binding, so that there is no moment in between.
async fn bind(client: &Client, node: &str, pod: &Pod, gpus: &[String]) -> Result<(), Error> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let mut binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "name": name, "uid": pod.metadata.uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    if let Some(metadata) = binding.get_mut("metadata").filter(|_| !gpus.is_empty()) {
        metadata["annotations"] = json!({ GPUS: gpus.join(",") });
    }
    let params = kube::api::PostParams::default();
    let _: serde_json::Value =
        api(client, pod).create_subresource("binding", name, &params, &binding).await?;
    Ok(())
}

async fn explain(client: &Client, pod: &Pod, message: &str, now: Timestamp) -> Result<(), Error> {
    if says(pod, message) {
        return Ok(());
    }
    let old = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let mut conditions: Vec<serde_json::Value> = old
        .iter()
        .filter(|c| c.type_ != "PodScheduled")
        .filter_map(|c| serde_json::to_value(c).ok())
        .collect();
    let before = old.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    let since = before.and_then(|c| c.last_transition_time.as_ref()).map_or(now, |time| time.0);
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": format!("{since:.0}"),
    }));
    // Only to what was seen: by now it may have been placed, run and ended, and that is not to be written over.
    let seen = json!({ "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version });
    let patch = json!({ "metadata": seen, "status": { "phase": "Pending", "conditions": conditions } });
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    api(client, pod).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn is_bound(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.is_some_and(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is slow to say that a pod waits must not say it of one that has run meanwhile.
    #[tokio::test]
    async fn an_explanation_that_comes_late_is_dropped() {
        let server = trainyard_apiserver::Server::open(trainyard_apiserver::Server::options()).unwrap();
        let client = Client::new(server.router(), "default");
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let pod =
            json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let params = kube::api::PostParams::default();
        let seen = pods.create(&params, &serde_json::from_value(pod).unwrap()).await.unwrap();
        bind(&client, "here", &seen, &[]).await.unwrap();
        let ended = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
        pods.patch_status("p", &PatchParams::default(), &ended).await.unwrap();
        let late = explain(&client, &seen, "waiting for room", Timestamp::UNIX_EPOCH).await.unwrap_err();
        assert!(matches!(&late, Error::Api(status) if status.is_conflict()), "{late}");
        let now = pods.get("p").await.unwrap();
        assert_eq!(now.status.unwrap().phase.as_deref(), Some("Succeeded"));
        // To what was seen last it is said.
        let seen = pods.get("p").await.unwrap();
        explain(&client, &seen, "waiting for room", Timestamp::UNIX_EPOCH).await.unwrap();
        assert!(says(&pods.get("p").await.unwrap(), "waiting for room"));
    }

    fn options(root: &std::path::Path) -> crate::Options {
        crate::Options {
            name: "here".into(),
            root: root.to_owned(),
            inventory: crate::Inventory::new("here", 1000, 1 << 30),
            shim: "true".into(),
            lock: root.join("lock"),
            orphans_after: None,
            surroundings: crate::Surroundings::Clean { env: Vec::new() },
            entrypoints: crate::Entrypoints::default(),
            back_off: crate::BackOff::default(),
            open_files: None,
            log: crate::runtime::LogRules { max_bytes: 1 << 20, max_files: 2 },
            keep: crate::Keep::default(),
            lost_objects: root.join("lost"),
            isolate: None,
            api: None,
            clock: Arc::new(|| Timestamp::UNIX_EPOCH),
        }
    }

    /// The pods of a large gang come one after the other, and each changes why all of them wait.
    #[tokio::test(start_paused = true)]
    async fn the_first_of_a_large_gang_says_at_once_why_it_waits() {
        const SIZE: usize = 1000;
        let home = tempfile::tempdir().unwrap();
        let server = trainyard_apiserver::Server::open(trainyard_apiserver::Server::options()).unwrap();
        let client = Client::new(server.router(), "default");
        let (events, _receiver) = crate::events::Events::new("here");
        let clock = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let tick = Arc::clone(&clock);
        let now =
            move || Timestamp::from_millisecond(tick.load(std::sync::atomic::Ordering::SeqCst)).unwrap();
        let options = crate::Options { clock: Arc::new(now), ..options(home.path()) };
        let (mut placing, _verdicts) = Placing::new(Arc::new(Shared::new(client, options, events)));
        let member = |number: usize| -> Arc<Pod> {
            let owner =
                json!({ "apiVersion": "v1", "kind": "Job", "name": "j", "uid": "j", "controller": true });
            Arc::new(serde_json::from_value(json!({
                "metadata": { "name": format!("p-{number:04}"), "namespace": "default", "uid": format!("u-{number:04}"),
                    "annotations": { "trainyard.dev/gang-size": SIZE.to_string() }, "ownerReferences": [owner] },
                "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } }] },
            })).unwrap())
        };
        let told = |placing: &Placing, number: usize| {
            placing.told.get(&format!("u-{number:04}")).map(|(said, _)| said.clone())
        };
        let advance = |millis: i64| clock.fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
        let mut pods: Vec<Arc<Pod>> = Vec::new();
        while pods.len() < SIZE {
            pods.extend((pods.len()..pods.len() + 100).map(member));
            placing.place(pods.iter());
            advance(300);
        }
        // The machine has one processor. Whatever is held back for a moment is said when that is over.
        let again = placing.place(pods.iter()).unwrap();
        assert!(again <= Duration::from_secs(2), "{again:?}");
        advance(i64::try_from(again.as_millis()).unwrap());
        let again = placing.place(pods.iter()).unwrap();
        let why = told(&placing, 0).unwrap();
        assert!(why.contains("it can never run here"), "{why}");
        // The others repeat it once it has settled, and were told no step on the way.
        assert!((1..SIZE).all(|number| told(&placing, number).is_none()));
        advance(i64::try_from(again.as_millis()).unwrap() + 2000);
        placing.place(pods.iter());
        assert!((0..SIZE).all(|number| told(&placing, number).as_ref() == Some(&why)));
    }

    /// A job of hundreds of pods that waited was deleted: nobody can be told any more why they wait, and others are bound
    /// all the same.
    #[tokio::test(start_paused = true)]
    async fn a_binding_waits_for_no_explanation() {
        let home = tempfile::tempdir().unwrap();
        let server = trainyard_apiserver::Server::open(trainyard_apiserver::Server::options()).unwrap();
        let client = Client::new(server.router(), "default");
        let pod = |name: String| -> Pod {
            let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
            let metadata = json!({ "name": name, "namespace": "default", "uid": name });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
        };
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let made = pods.create(&kube::api::PostParams::default(), &pod("made".into())).await.unwrap();
        let (events, _receiver) = crate::events::Events::new("here");
        let shared = Arc::new(Shared::new(client, options(home.path()), events));
        let (mut placing, mut verdicts) = Placing::new(shared);
        let (now, begun) = (Timestamp::UNIX_EPOCH, tokio::time::Instant::now());
        for number in 0..300 {
            let gone = Arc::new(pod(format!("gone-{number}")));
            placing.tell(&gone, "no room".into(), now, SignedDuration::ZERO);
        }
        placing.bind(&Arc::new(made), Vec::new(), now);
        while !matches!(verdicts.recv().await, Some(Verdict::Bound)) {}
        assert!(begun.elapsed() < AFTER_FAILURE, "bound after {:?}", begun.elapsed());
    }
}
