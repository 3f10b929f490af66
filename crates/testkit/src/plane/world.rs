//! What a test sees of the world: every object of interest, as of the last event.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trainyard_api::labels;

use crate::rest::{name, namespace, text};
use crate::watch::{Change, Watch};

/// Everything a condition of a test may look at.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// By plural, then by namespace and name.
    objects: BTreeMap<&'static str, BTreeMap<(String, String), Value>>,
    /// Every condition list each job had, in order, as [`shape`]s.
    shapes: BTreeMap<(String, String), Vec<String>>,
    /// Plurals of job kinds.
    kinds: Vec<&'static str>,
}

/// `Created=T Running=F Succeeded=T`: the conditions of a job in the order of the list.
pub fn shape(job: &Value) -> String {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let parts = conditions.into_iter().flatten().map(|c| {
        let status = text(c, "/status");
        format!("{}={}", text(c, "/type"), status.get(..1).unwrap_or("?"))
    });
    parts.collect::<Vec<_>>().join(" ")
}

impl World {
    /// The job of that name, whatever its kind, in the default namespace.
    pub fn job(&self, name: &str) -> Option<&Value> {
        let key = ("default".to_owned(), name.to_owned());
        self.kinds.iter().find_map(|kind| self.objects.get(kind)?.get(&key))
    }

    /// Every job.
    pub fn jobs(&self) -> impl Iterator<Item = &Value> {
        self.kinds.iter().filter_map(|kind| self.objects.get(kind)).flat_map(|map| map.values())
    }

    /// The conditions of a job, empty if there is none.
    pub fn shape(&self, job: &str) -> String {
        self.job(job).map(shape).unwrap_or_default()
    }

    /// Every condition list a job had so far.
    pub fn shapes(&self, job: &str) -> &[String] {
        let key = ("default".to_owned(), job.to_owned());
        self.shapes.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// True when the job's condition of that type is True.
    pub fn is(&self, job: &str, condition: &str) -> bool {
        self.condition(job, condition).is_some_and(|c| text(c, "/status") == "True")
    }

    /// A condition of a job.
    pub fn condition(&self, job: &str, type_: &str) -> Option<&Value> {
        let conditions = self.job(job)?.pointer("/status/conditions")?.as_array()?;
        conditions.iter().find(|c| text(c, "/type") == type_)
    }

    /// True when the job has ended.
    pub fn is_finished(&self, job: &str) -> bool {
        self.is(job, "Succeeded") || self.is(job, "Failed")
    }

    /// A number of a job's `replicaStatuses`, 0 if it is left out.
    pub fn count(&self, job: &str, role: &str, field: &str) -> i64 {
        let pointer = format!("/status/replicaStatuses/{role}/{field}");
        self.job(job).and_then(|job| job.pointer(&pointer)).and_then(Value::as_i64).unwrap_or(0)
    }

    /// The pods of a job, by name.
    pub fn pods(&self, job: &str) -> Vec<&Value> {
        self.children("pods", job)
    }

    /// The services of a job, by name.
    pub fn services(&self, job: &str) -> Vec<&Value> {
        self.children("services", job)
    }

    /// The pod of that name in the default namespace.
    pub fn pod(&self, name: &str) -> Option<&Value> {
        self.objects.get("pods")?.get(&("default".to_owned(), name.to_owned()))
    }

    /// The phase of a pod, empty if there is none.
    pub fn phase(&self, pod: &str) -> &str {
        self.pod(pod).map(|pod| text(pod, "/status/phase")).unwrap_or_default()
    }

    /// How many pods of a job are in a phase and not on their way out.
    pub fn in_phase(&self, job: &str, phase: &str) -> usize {
        let pods = self.pods(job).into_iter();
        let staying = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_none();
        pods.filter(|pod| text(pod, "/status/phase") == phase).filter(staying).count()
    }

    fn children(&self, plural: &str, job: &str) -> Vec<&Value> {
        let all = self.objects.get(plural).into_iter().flat_map(|map| map.values());
        let label = |object: &Value| {
            let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
            labels.and_then(|map| map.get(labels::JOB_NAME)).and_then(Value::as_str) == Some(job)
        };
        all.filter(|object| label(object)).collect()
    }

    /// Everything in readable form, for the message of a test that waited in vain.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for job in self.jobs() {
            let status = job.get("status").map(Value::to_string).unwrap_or_default();
            let record = job.pointer("/metadata/annotations").map(Value::to_string).unwrap_or_default();
            let (ns, name, kind) = (namespace(job), name(job), text(job, "/kind"));
            let _ = writeln!(
                out,
                "{kind} {ns}/{name}: {}\n  status {status}\n  annotations {record}",
                shape(job)
            );
        }
        for pod in self.objects.get("pods").into_iter().flat_map(|map| map.values()) {
            let deleting = text(pod, "/metadata/deletionTimestamp");
            let phase = text(pod, "/status/phase");
            let states = pod.pointer("/status/containerStatuses").map(Value::to_string).unwrap_or_default();
            let _ = writeln!(out, "Pod {}: {phase} deleting={deleting:?} {states}", name(pod));
        }
        for service in self.objects.get("services").into_iter().flat_map(|map| map.values()) {
            let _ = writeln!(out, "Service {}", name(service));
        }
        out
    }

    fn apply(&mut self, plural: &'static str, change: Change) {
        let key = |object: &Value| (namespace(object).to_owned(), name(object).to_owned());
        let map = self.objects.entry(plural).or_default();
        let mut changed = Vec::new();
        match change {
            Change::All(items) => {
                map.clear();
                for object in items {
                    changed.push((key(&object), shape(&object)));
                    map.insert(key(&object), object);
                }
            }
            Change::Put(object) => {
                changed.push((key(&object), shape(&object)));
                map.insert(key(&object), object);
            }
            Change::Gone(object) => {
                map.remove(&key(&object));
            }
        }
        if self.kinds.contains(&plural) {
            for (key, shape) in changed {
                let shapes = self.shapes.entry(key).or_default();
                if shapes.last() != Some(&shape) {
                    shapes.push(shape);
                }
            }
        }
    }
}

/// A world that follows the API server. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Mirror {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
}

impl Mirror {
    /// Follows pods, services and these kinds (collection path and plural) until `shutdown`.
    pub(crate) fn start(
        client: &Client,
        kinds: &[(String, &'static str)],
        shutdown: &CancellationToken,
    ) -> Self {
        let world = World { kinds: kinds.iter().map(|(_, plural)| *plural).collect(), ..World::default() };
        let mirror = Self { world: Arc::new(Mutex::new(world)), changed: watch::Sender::new(0) };
        let builtin = [("/api/v1/pods".to_owned(), "pods"), ("/api/v1/services".to_owned(), "services")];
        for (path, plural) in kinds.iter().cloned().chain(builtin) {
            let mut watch = Watch::new(client.clone(), path);
            let (mirror, shutdown) = (mirror.clone(), shutdown.clone());
            tokio::spawn(async move {
                while let Some(change) = shutdown.run_until_cancelled(watch.next()).await {
                    mirror.lock().apply(plural, change);
                    mirror.changed.send_modify(|n| *n += 1);
                }
            });
        }
        mirror
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
