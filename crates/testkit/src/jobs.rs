//! Builders for job objects: a test says what matters to it and nothing else.

use serde_json::{Map, Value, json};

/// A job in the making.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    kind: &'static str,
    specs: &'static str,
    container: &'static str,
    object: Value,
}

/// A PyTorchJob without replicas.
pub fn pytorch(name: &str) -> Job {
    Job::new("PyTorchJob", "pytorchReplicaSpecs", "pytorch", name)
}

/// An XGBoostJob without replicas.
pub fn xgboost(name: &str) -> Job {
    Job::new("XGBoostJob", "xgbReplicaSpecs", "xgboost", name)
}

/// A PaddleJob without replicas.
pub fn paddle(name: &str) -> Job {
    Job::new("PaddleJob", "paddleReplicaSpecs", "paddle", name)
}

/// A JAXJob without replicas.
pub fn jax(name: &str) -> Job {
    Job::new("JAXJob", "jaxReplicaSpecs", "jax", name)
}

/// An MPIJob without replicas.
pub fn mpi(name: &str) -> Job {
    Job::new("MPIJob", "mpiReplicaSpecs", "mpi", name)
}

/// A TFJob without replicas.
pub fn tf(name: &str) -> Job {
    Job::new("TFJob", "tfReplicaSpecs", "tensorflow", name)
}

impl Job {
    /// A job of any kind: its kind, the field of its replica specs and the name of its training container.
    pub fn new(kind: &'static str, specs: &'static str, container: &'static str, name: &str) -> Self {
        let object = json!({
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": { "name": name, "namespace": "default" },
            "spec": { specs: {} },
        });
        Self { kind, specs, container, object }
    }

    /// Puts it into another namespace.
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", namespace)
    }

    /// Gives it `replicas` replicas of a type.
    pub fn role(self, role: &str, replicas: u32) -> Self {
        let container = json!({ "name": self.container, "image": "none" });
        let template = json!({ "spec": { "containers": [container] } });
        let path = format!("/spec/{}/{role}", self.specs);
        self.set(&path, json!({ "replicas": replicas, "template": template }))
    }

    /// One Master.
    pub fn master(self) -> Self {
        self.role("Master", 1)
    }

    /// One Launcher.
    pub fn launcher(self) -> Self {
        self.role("Launcher", 1)
    }

    /// One Chief.
    pub fn chief(self) -> Self {
        self.role("Chief", 1)
    }

    /// So many Workers.
    pub fn workers(self, replicas: u32) -> Self {
        self.role("Worker", replicas)
    }

    /// So many parameter servers.
    pub fn ps(self, replicas: u32) -> Self {
        self.role("PS", replicas)
    }

    /// The restart policy of all types there are so far.
    pub fn restart(mut self, policy: &str) -> Self {
        let pointer = format!("/spec/{}", self.specs);
        let specs = self.object.pointer_mut(&pointer).and_then(Value::as_object_mut);
        for spec in specs.into_iter().flat_map(|specs| specs.values_mut()) {
            spec["restartPolicy"] = policy.into();
        }
        self
    }

    /// The restart policy of one type.
    pub fn restart_of(self, role: &str, policy: &str) -> Self {
        let path = format!("/spec/{}/{role}/restartPolicy", self.specs);
        self.set(&path, policy)
    }

    /// A field of the run policy.
    pub fn policy(self, field: &str, value: impl Into<Value>) -> Self {
        self.set(&format!("/spec/runPolicy/{field}"), value)
    }

    /// `backoffLimit`.
    pub fn backoff_limit(self, limit: u32) -> Self {
        self.policy("backoffLimit", limit)
    }

    /// `activeDeadlineSeconds`.
    pub fn deadline(self, seconds: i64) -> Self {
        self.policy("activeDeadlineSeconds", seconds)
    }

    /// `ttlSecondsAfterFinished`.
    pub fn ttl(self, seconds: i32) -> Self {
        self.policy("ttlSecondsAfterFinished", seconds)
    }

    /// `cleanPodPolicy`.
    pub fn clean(self, policy: &str) -> Self {
        self.policy("cleanPodPolicy", policy)
    }

    /// `suspend: true`.
    pub fn suspended(self) -> Self {
        self.policy("suspend", true)
    }

    /// `managedBy`.
    pub fn managed_by(self, controller: &str) -> Self {
        self.policy("managedBy", controller)
    }

    /// An annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.object["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Any field by JSON pointer; objects on the way are made.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut place = &mut self.object;
        for step in pointer.split('/').skip(1) {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            place = match (step.parse::<usize>(), place.is_array()) {
                (Ok(at), true) => &mut place[at],
                _ => &mut place[step],
            };
        }
        *place = value.into();
        self
    }

    /// A field of the template of one type, by JSON pointer from the template.
    pub fn template(self, role: &str, pointer: &str, value: impl Into<Value>) -> Self {
        let path = format!("/spec/{}/{role}/template{pointer}", self.specs);
        self.set(&path, value)
    }

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The object.
    pub fn build(self) -> Value {
        self.object
    }
}

impl From<Job> for Value {
    fn from(job: Job) -> Self {
        job.object
    }
}
