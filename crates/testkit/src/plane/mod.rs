//! A whole control plane in one process and in virtual time.

mod builder;
mod life;
mod users;
mod world;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use trainyard_core::{Catalog, Kind};
use trainyard_host::Host;

pub use self::builder::Builder;
pub use self::world::{World, shape};

use self::life::Lives;
use self::world::Mirror;
use crate::clock::Clock;
use crate::kubelet::History;
use crate::rest::{Answer, Rest, collection, name, namespace, text};

/// How long [`Plane::until`] waits, in the time of the test.
pub const PATIENCE: Duration = Duration::from_hours(1);

/// A running plane. Dropping it ends everything.
pub struct Plane {
    rest: Rest,
    host: Host,
    mirror: Mirror,
    lives: Lives,
    history: History,
    clock: Clock,
    catalog: Catalog,
    shutdown: CancellationToken,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.host.shutdown().cancel();
    }
}

impl Plane {
    /// A plane in the making.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A plane whose pods all follow one script.
    pub async fn with(script: crate::kubelet::PodScript) -> Self {
        Self::builder().scripts(move |_| script.clone()).start().await
    }

    /// The API without faults.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// The API itself, to be wrapped in layers.
    pub fn router(&self) -> axum::Router {
        self.host.router()
    }

    /// A client without faults.
    pub fn client(&self) -> Client {
        self.rest.client().clone()
    }

    /// What ran.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Now, in the time of the test.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Creates an object of any kind this plane knows; panics if it is refused.
    pub async fn create(&self, object: impl Into<Value>) -> Value {
        let object = object.into();
        match self.try_create(&object).await {
            Ok(created) => created,
            Err(error) => panic!("refused: {error}\n{object:#}"),
        }
    }

    /// Creates an object, or says why not.
    pub async fn try_create(&self, object: &Value) -> Answer {
        let path = self.collection_of(object);
        self.rest.post(&path, object).await
    }

    fn collection_of(&self, object: &Value) -> String {
        let kind = text(object, "/kind");
        let plural = match self.catalog.kind(kind) {
            Some(kind) => kind.plural.to_owned(),
            None => format!("{}s", kind.to_lowercase()),
        };
        let space = Some(namespace(object)).filter(|space| !space.is_empty());
        collection(text(object, "/apiVersion"), &plural, space)
    }

    fn kind(&self, kind: &str) -> &'static Kind {
        self.catalog.kind(kind).unwrap_or_else(|| panic!("no kind {kind} in the catalog"))
    }

    /// The path of a job in the default namespace.
    pub fn path(&self, kind: &str, name: &str) -> String {
        let kind = self.kind(kind);
        format!("{}/{name}", collection(&kind.api_version(), kind.plural, Some("default")))
    }

    /// The job as it is stored now.
    pub async fn job(&self, kind: &str, name: &str) -> Option<Value> {
        self.rest.get(&self.path(kind, name)).await.ok()
    }

    /// Merges a patch into a job; panics if it is refused.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        self.rest.merge(&self.path(kind, name), &patch).await.expect("the patch is taken")
    }

    /// The pods of the default namespace as they are stored now.
    pub async fn pods(&self) -> Vec<Value> {
        self.list("/api/v1/namespaces/default/pods").await
    }

    /// The services of the default namespace as they are stored now.
    pub async fn services(&self) -> Vec<Value> {
        self.list("/api/v1/namespaces/default/services").await
    }

    /// The events about an object, oldest first.
    pub async fn events(&self, about: &str) -> Vec<Value> {
        let mut events = self.list("/api/v1/namespaces/default/events").await;
        events.retain(|event| text(event, "/involvedObject/name") == about);
        events
    }

    /// The set of event reasons about an object, sorted.
    pub async fn event_reasons(&self, about: &str) -> Vec<String> {
        let events = self.events(about).await;
        let mut reasons: Vec<String> = events.iter().map(|event| text(event, "/reason").to_owned()).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }

    /// The objects of a collection as they are stored now.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self.rest.get(path).await.expect("lists are answered");
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
    }

    /// What the test sees now.
    pub fn world(&self) -> World {
        self.mirror.lock().clone()
    }

    /// Waits until the world is as it should be. Looks at every state in between; gives up after [`PATIENCE`].
    pub async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) -> World {
        let mut changes = self.mirror.changes();
        let wait = async {
            loop {
                changes.mark_unchanged();
                let seen = Some(self.mirror.lock()).filter(|world| holds(world)).map(|world| world.clone());
                if let Some(world) = seen {
                    return world;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(world) => world,
            Err(_) => panic!("waited in vain until {what}\n{}", self.dump().await),
        }
    }

    /// Waits until an object that the world does not show is as it should be; one that is not there is null.
    pub async fn until_stored(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let object = self.rest.get(path).await.unwrap_or_default();
                if holds(&object) {
                    return object;
                }
                self.pass(Duration::from_secs(1)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(object) => object,
            Err(_) => {
                panic!("waited in vain for {path}: {:#?}\n{}", self.rest.get(path).await, self.dump().await)
            }
        }
    }

    /// Waits until a job has ended.
    pub async fn finished(&self, job: &str) -> World {
        self.until(&format!("{job} has ended"), |world| world.is_finished(job)).await
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets everybody finish what they are doing: a second in which nothing is due but reactions.
    pub async fn settle(&self) {
        self.pass(Duration::from_secs(1)).await;
    }

    async fn dump(&self) -> String {
        let mut out = self.world().dump();
        for event in self.list("/api/v1/events").await {
            let (about, reason) = (text(&event, "/involvedObject/name"), text(&event, "/reason"));
            out.push_str(&format!("Event {about}: {reason}: {}\n", text(&event, "/message")));
        }
        for run in self.history.runs() {
            let (pod, restarts, ended) = (&run.pod.name, run.restarts, run.ended);
            out.push_str(&format!("Run {pod} #{restarts} {} {ended:?}\n", run.started));
        }
        let stats = self.lives.health().map(|health| health.stats());
        let (count, failure) = (self.lives.count(), self.lives.failure());
        out.push_str(&format!("operators: {count}, failure {failure:?}, {stats:?}\n"));
        out
    }

    /// Starts the operator, if none runs.
    pub async fn start_operator(&self) {
        self.lives.start().await;
    }

    /// Ends the operator in order.
    pub async fn stop_operator(&self) {
        self.lives.stop().await;
    }

    /// Ends the operator in order and starts another.
    pub async fn restart_operator(&self) {
        self.lives.restart().await;
    }

    /// Kills the operator in the middle of whatever it does.
    pub async fn crash_operator(&self) {
        self.lives.crash(false).await;
    }

    /// Kills the operator and starts another at once.
    pub async fn replace_operator(&self) {
        self.lives.crash(true).await;
    }

    /// How many operators there were.
    pub fn operators(&self) -> u64 {
        self.lives.count()
    }

    /// Writes of all operators that have ended.
    pub fn writes_of_the_dead(&self) -> u64 {
        self.lives.writes()
    }

    /// How the latest operator is doing.
    pub fn health(&self) -> Option<trainyard_operator::Health> {
        self.lives.health()
    }

    /// Why the operator ended by itself, if it did. A test that expects none asks at its end.
    pub fn operator_failure(&self) -> Option<String> {
        self.lives.failure()
    }
}

/// `name phase` of pods, for assertions on all of them at once.
pub fn phases(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| format!("{} {}", name(pod), text(pod, "/status/phase"))).collect()
}
