//! TensorFlow: every replica is told the whole cluster and its own place in it, as JSON in `TF_CONFIG`.
//!
//! Chief, Master, Worker, PS and Evaluator. A Chief or Master decides; without one worker 0 does, or all workers
//! with `successPolicy: AllWorkers`. With `enableDynamicWorker` a worker learns only of itself and of the
//! parameter servers, so that workers may come and go.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use trainyard_api::RestartPolicy;

use crate::field_error::FieldError;
use crate::framework::{Facts, Framework, Rendezvous, Verdict, by_decider, has_leader};
use crate::job::{JobView, Role, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;
use crate::steps::tally::Tally;

/// See the module.
pub(super) struct TensorFlow;

static FACTS: Facts = Facts {
    name: "tensorflow",
    roles: &["Chief", "Master", "PS", "Worker", "Evaluator"],
    leaders: &["Chief", "Master"],
    followers: "Worker",
    container: "tensorflow",
    port_name: "tfjob-port",
    port: 2222,
    restart: RestartPolicy::Never,
    rendezvous: Rendezvous::Everyone,
    ..Facts::USUAL
};

impl Framework for TensorFlow {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        // A job of one replica has no cluster to learn about, and TensorFlow treats any TF_CONFIG as one.
        let known = job.roles.iter().filter(|role| FACTS.roles.contains(&role.name.as_str()));
        if known.map(|role| role.replicas).sum::<u32>() == 1 {
            return;
        }
        let config = if is_dynamic(job) { sparse(job, slot, net) } else { dense(job, slot, net) };
        pod.set_env(FACTS.container, "TF_CONFIG", config);
    }

    fn verdict(&self, job: &JobView, tally: &Tally) -> Verdict {
        let worker_0_decides = !has_leader(&FACTS, job) && text(job, "successPolicy") != Some("AllWorkers");
        if worker_0_decides && tally.slot_succeeded(FACTS.followers, 0) {
            return Verdict::Succeeded;
        }
        by_decider(&FACTS, job, tally)
    }

    fn tolerates(&self, job: &JobView, role: &str) -> bool {
        is_dynamic(job) && role == FACTS.followers
    }

    fn validate(&self, job: &JobView) -> Vec<FieldError> {
        let both = FACTS.leaders.iter().all(|role| job.role(role).is_some());
        let path = format!("spec.{}", job.kind.replica_specs);
        both.then(|| FieldError::forbidden(path, "must not have more than 1 Chief or Master role"))
            .into_iter()
            .collect()
    }
}

fn is_dynamic(job: &JobView) -> bool {
    job.options.get("enableDynamicWorker") == Some(&Value::Bool(true))
}

fn text<'a>(job: &'a JobView, field: &str) -> Option<&'a str> {
    job.options.get(field).and_then(Value::as_str)
}

/// What a replica is told about itself.
#[derive(Serialize)]
struct Task<'a> {
    r#type: &'a str,
    index: u32,
}

/// Field order is part of the contract: programs compare the text.
#[derive(Serialize)]
struct Dense<'a> {
    cluster: BTreeMap<&'a str, Vec<String>>,
    task: Task<'a>,
    environment: &'static str,
}

#[derive(Serialize)]
struct Sparse<'a> {
    cluster: SparseCluster,
    task: Task<'a>,
}

#[derive(Serialize)]
struct SparseCluster {
    worker: BTreeMap<u32, String>,
    ps: Option<Vec<String>>,
}

fn hosts(role: &Role, net: &Net<'_>) -> Vec<String> {
    (0..role.replicas).map(|index| net.endpoint_qualified(Slot { role, index })).collect()
}

fn dense(job: &JobView, slot: Slot<'_>, net: &Net<'_>) -> String {
    let config = Dense {
        cluster: job.roles.iter().map(|role| (role.label.as_str(), hosts(role, net))).collect(),
        task: Task { r#type: &slot.role.label, index: slot.index },
        environment: "cloud",
    };
    serde_json::to_string(&config).unwrap_or_default()
}

fn sparse(job: &JobView, slot: Slot<'_>, net: &Net<'_>) -> String {
    let own = net.endpoint_qualified(slot);
    let (worker, ps) = match slot.role.name.as_str() {
        "Worker" => (BTreeMap::from([(slot.index, own)]), job.role("PS").map(|role| hosts(role, net))),
        "PS" => (BTreeMap::new(), Some(vec![own])),
        _ => (BTreeMap::new(), Some(Vec::new())),
    };
    let task = Task { r#type: &slot.role.label, index: slot.index };
    serde_json::to_string(&Sparse { cluster: SparseCluster { worker, ps }, task }).unwrap_or_default()
}
