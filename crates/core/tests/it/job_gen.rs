//! Arbitrary jobs: two kinds, every policy, every limit, both addressings.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Everything about a job that the properties vary.
#[derive(Clone, Debug)]
pub(crate) struct JobSpec {
    pub(crate) kind: &'static str,
    pub(crate) roles: Vec<RoleSpec>,
    pub(crate) backoff_limit: Option<u32>,
    pub(crate) deadline: Option<u32>,
    pub(crate) ttl: Option<u32>,
    pub(crate) clean: Option<&'static str>,
    pub(crate) all_workers: bool,
    pub(crate) as_one: bool,
    pub(crate) host_ports: bool,
    pub(crate) gang: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RoleSpec {
    pub(crate) name: &'static str,
    pub(crate) replicas: u32,
    pub(crate) restart: &'static str,
}

const POLICIES: [&str; 4] = ["Always", "OnFailure", "Never", "ExitCode"];

fn role(name: &'static str, replicas: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = RoleSpec> {
    (replicas, prop::sample::select(&POLICIES[..])).prop_map(move |(replicas, restart)| RoleSpec {
        name,
        replicas,
        restart,
    })
}

fn roles() -> impl Strategy<Value = (&'static str, Vec<RoleSpec>)> {
    let workers = || role("Worker", 1..=3);
    prop_oneof![
        (role("Master", 1..=1), workers()).prop_map(|(m, w)| ("PyTorchJob", vec![m, w])),
        workers().prop_map(|w| ("PyTorchJob", vec![w])),
        workers().prop_map(|w| ("TFJob", vec![w])),
        (role("PS", 1..=2), workers()).prop_map(|(p, w)| ("TFJob", vec![p, w])),
        (role("Chief", 1..=1), role("Worker", 0..=2)).prop_map(|(c, w)| ("TFJob", vec![c, w])),
    ]
}

/// Any job.
pub(crate) fn job_spec() -> impl Strategy<Value = JobSpec> {
    let limits = (
        prop::option::weighted(0.7, 0_u32..=3),
        prop::option::weighted(0.2, 5_u32..=200),
        prop::option::weighted(0.2, 0_u32..=50),
        prop::sample::select(&[None, Some("None"), Some("Running"), Some("All")][..]),
    );
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.3), any::<bool>());
    (roles(), limits, flags).prop_map(|((kind, roles), limits, flags)| {
        let (backoff_limit, deadline, ttl, clean) = limits;
        let (all_workers, as_one, host_ports, gang) = flags;
        JobSpec { kind, roles, backoff_limit, deadline, ttl, clean, all_workers, as_one, host_ports, gang }
    })
}

impl JobSpec {
    /// The manifest.
    pub(crate) fn manifest(&self) -> Value {
        let (field, container) = match self.kind {
            "TFJob" => ("tfReplicaSpecs", "tensorflow"),
            _ => ("pytorchReplicaSpecs", "pytorch"),
        };
        let specs: Map<String, Value> = self
            .roles
            .iter()
            .map(|role| {
                let template = json!({ "spec": { "containers": [{ "name": container, "image": "i" }] } });
                let spec =
                    json!({ "replicas": role.replicas, "restartPolicy": role.restart, "template": template });
                (role.name.to_owned(), spec)
            })
            .collect();
        let mut policy = Map::new();
        let mut put = |key: &str, value: Option<Value>| value.map(|value| policy.insert(key.into(), value));
        put("backoffLimit", self.backoff_limit.map(Value::from));
        put("activeDeadlineSeconds", self.deadline.map(Value::from));
        put("ttlSecondsAfterFinished", self.ttl.map(Value::from));
        put("cleanPodPolicy", self.clean.map(Value::from));
        let mut spec = Map::from_iter([("runPolicy".into(), policy.into()), (field.into(), specs.into())]);
        if self.kind == "TFJob" && self.all_workers {
            spec.insert("successPolicy".into(), "AllWorkers".into());
        }
        let annotations =
            if self.as_one { json!({ "trainyard.dev/restart-scope": "job" }) } else { json!({}) };
        json!({
            "apiVersion": "kubeflow.org/v1",
            "kind": self.kind,
            "metadata": { "name": "j", "namespace": "n", "uid": "job-uid", "annotations": annotations },
            "spec": spec,
        })
    }

    /// True when some end of a replica would be followed by a restart for ever.
    pub(crate) fn may_never_end(&self) -> bool {
        self.roles.iter().any(|role| role.restart == "Always") && self.backoff_limit.is_none()
    }
}
