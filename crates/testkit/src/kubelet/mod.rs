//! A kubelet and a scheduler that follow a script instead of running anything.
//!
//! It does to the API what real ones do (binding, status writes, graceful deletion, restarts in place with growing
//! pauses), in the time of the test. What "ran" is in [`History`].

mod container;
mod history;
mod machine;
mod script;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use self::history::{History, Run};
pub use self::script::{End, Exit, OnDelete, PodInfo, PodScript, Scripts};

use self::machine::{Effect, Machine};
use crate::clock::Clock;
use crate::rest::{self, Rest, name, namespace, uid};
use crate::watch::{Change, Watch};

/// The node every pod is bound to.
pub const NODE: &str = "node-0";

/// A node that follows scripts.
pub struct Kubelet {
    rest: Rest,
    clock: Clock,
    scripts: Scripts,
    history: History,
    pods: BTreeMap<String, Tracked>,
    seen: BTreeMap<(String, String), u32>,
}

struct Tracked {
    info: PodInfo,
    main: String,
    env: BTreeMap<String, BTreeMap<String, String>>,
    machine: Machine,
}

impl Kubelet {
    /// A node for all pods that `client` sees.
    pub fn new(client: Client, clock: Clock, scripts: Scripts) -> Self {
        let history = History::default();
        Self {
            rest: Rest::new(client),
            clock,
            scripts,
            history,
            pods: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// What ran so far, and will have run.
    pub fn history(&self) -> History {
        self.history.clone()
    }

    /// Works until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut watch = Watch::new(self.rest.client().clone(), rest::collection("v1", "pods", None));
        loop {
            let wait = self.wait();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => self.tick().await,
                change = watch.next() => self.see(change),
            }
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn wait(&self) -> Duration {
        let now = self.now();
        let next = self.pods.values().filter_map(|pod| pod.machine.due()).min();
        let wait = next.map_or(Machine::IDLE, |due| due.duration_since(now));
        Duration::try_from(wait).unwrap_or(Duration::ZERO)
    }

    fn see(&mut self, change: Change) {
        match change {
            Change::All(pods) => {
                let there: Vec<String> = pods.iter().map(|pod| uid(pod).to_owned()).collect();
                let gone: Vec<String> =
                    self.pods.keys().filter(|uid| !there.contains(uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                pods.iter().for_each(|pod| self.observe(pod));
            }
            Change::Put(pod) => self.observe(&pod),
            Change::Gone(pod) => self.forget(uid(&pod)),
        }
    }

    fn observe(&mut self, pod: &Value) {
        let now = self.now();
        let known = uid(pod).to_owned();
        // One that is only kept by a finalizer is no longer anybody's.
        let kept = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64) == Some(0);
        if !self.pods.contains_key(&known) && !kept && rest::text(pod, "/spec/nodeName").is_empty() {
            let count = self.seen.entry((namespace(pod).to_owned(), name(pod).to_owned())).or_default();
            let info = PodInfo::of(pod, *count, now);
            *count += 1;
            let machine = Machine::new(pod, (self.scripts)(&info), now);
            let main = rest::text(pod, "/spec/containers/0/name").to_owned();
            self.pods.insert(known.clone(), Tracked { info, main, env: env(pod), machine });
        }
        let Some(tracked) = self.pods.get_mut(&known) else { return };
        if let Some(seconds) = pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64) {
            tracked.machine.limit(seconds);
        }
        if let Some(condition) = target(pod) {
            tracked.machine.is_target(condition);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
            tracked.machine.stop(grace.unwrap_or(30), now);
        }
    }

    /// The object is gone. What ran of it is killed, unless its node cannot be told.
    fn forget(&mut self, uid: &str) {
        let now = self.now();
        if let Some(tracked) = self.pods.remove(uid).filter(|tracked| !tracked.machine.is_lost()) {
            for container in tracked.machine.running() {
                self.history.end(uid, container, (now, 137), false);
            }
        }
    }

    async fn tick(&mut self) {
        let now = self.now();
        let due = |tracked: &Tracked| tracked.machine.due().is_some_and(|due| due <= now);
        let uids: Vec<String> =
            self.pods.iter().filter(|(_, tracked)| due(tracked)).map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            let Some(tracked) = self.pods.get_mut(&uid) else { continue };
            for effect in tracked.machine.tick(now) {
                self.carry_out(&uid, effect, now).await;
            }
        }
    }

    /// Writes that fail are left out: the pod is gone, or the next status says it all again.
    async fn carry_out(&mut self, uid: &str, effect: Effect, now: Timestamp) {
        let Some(tracked) = self.pods.get(uid) else { return };
        let info = &tracked.info;
        let path = rest::pod(&info.namespace, &info.name);
        match effect {
            Effect::Bind => {
                let target = json!({ "apiVersion": "v1", "kind": "Node", "name": NODE });
                let metadata = json!({ "name": info.name, "namespace": info.namespace, "uid": uid });
                let body = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target,
                });
                let _ = self.rest.post(&format!("{path}/binding"), &body).await;
            }
            Effect::Status(mut status) => {
                status["metadata"] = json!({ "uid": uid });
                let _ = self.rest.merge(&format!("{path}/status"), &status).await;
            }
            Effect::Started { container, restarts } => {
                let env = tracked.env.get(&container).cloned().unwrap_or_default();
                let (pod, main) = (info.clone(), container == tracked.main);
                self.history.start(Run {
                    pod,
                    container,
                    main,
                    restarts,
                    started: now,
                    ended: None,
                    own: false,
                    env,
                });
            }
            Effect::Ended { container, code, own } => {
                self.history.end(uid, &container, (now, code), own);
            }
            Effect::Refused => self.history.refuse(info),
            Effect::Evict => {
                let _ = self.rest.delete(&path, &json!({ "preconditions": { "uid": uid } })).await;
            }
            Effect::Remove => {
                let _ = self.rest.remove(&path, uid).await;
                self.pods.remove(uid);
            }
        }
    }
}

/// A time as objects have it.
pub(crate) fn stamp(time: Timestamp) -> String {
    container::stamp(time, SignedDuration::ZERO)
}

/// The condition by which the API says that it is about to end a pod.
fn target(pod: &Value) -> Option<&Value> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| rest::text(condition, "/type") == "DisruptionTarget")
}

fn env(pod: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let lists = ["/spec/initContainers", "/spec/containers"];
    let containers = lists.iter().filter_map(|list| pod.pointer(list).and_then(Value::as_array)).flatten();
    containers
        .map(|container| {
            let entries = container.get("env").and_then(Value::as_array).into_iter().flatten();
            let pair = |entry: &Value| {
                let value = entry.get("value").and_then(Value::as_str).unwrap_or_default();
                Some((entry.get("name")?.as_str()?.to_owned(), value.to_owned()))
            };
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            (name.to_owned(), entries.filter_map(pair).collect())
        })
        .collect()
}
