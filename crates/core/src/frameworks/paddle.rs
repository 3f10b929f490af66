//! PaddlePaddle: `paddle.distributed.launch` finds its peers through one address that everybody is told.
//!
//! Workers alone train collectively and meet at worker 0. With a Master they use parameter servers: masters serve,
//! workers train, and all meet at master 0.

use serde_json::{Value, json};
use trainyard_api::{PaddleElasticPolicy, RestartPolicy};

use crate::framework::{Elastic, Facts, Framework, Rendezvous, has_leader, is_leader};
use crate::job::{JobView, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;

/// See the module.
pub(super) struct Paddle;

static FACTS: Facts = Facts {
    name: "paddle",
    roles: &[MASTER, WORKER],
    leaders: &[MASTER],
    followers: WORKER,
    container: "paddle",
    port_name: "master",
    port: 36543,
    restart: RestartPolicy::OnFailure,
    // On one machine whoever comes first holds the common address, and nobody knows who that was.
    rendezvous: Rendezvous::Everyone,
    ..Facts::USUAL
};

const MASTER: &str = "Master";
const WORKER: &str = "Worker";

/// The replica's own address, which Kubernetes knows only once the pod has one.
const POD_IP: &str = "POD_IP_DUMMY";

impl Framework for Paddle {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        pod.set_env_everywhere("PYTHONUNBUFFERED", "1");
        pod.set_env_everywhere("PADDLE_JOB_ID", &*job.name);
        pod.set_env_everywhere("PADDLE_NNODES", job.total_replicas().to_string());
        let Some(meeting) = job.role(MASTER).or_else(|| job.role(WORKER)) else { return };
        let at = Slot { role: meeting, index: 0 };
        let port = net.port(at);
        if slot.index == 0 && slot.role.name == meeting.name && net.by_service() {
            // A service has no address before its pod is ready: who holds the address names itself otherwise.
            pod.set_env_from_everywhere(POD_IP, &json!({ "fieldRef": { "fieldPath": "status.podIP" } }));
            pod.set_env_everywhere("PADDLE_MASTER", format!("$({POD_IP}):{port}"));
        } else {
            pod.set_env_everywhere("PADDLE_MASTER", format!("{}:{port}", net.host(at)));
        }
        if has_leader(&FACTS, job) {
            let part = if slot.role.name == MASTER { "PADDLE_SERVER_NUM" } else { "PADDLE_TRAINER_NUM" };
            pod.set_env_everywhere(part, "1");
        }
    }

    fn is_master(&self, job: &JobView, slot: Slot<'_>) -> bool {
        has_leader(&FACTS, job) && is_leader(&FACTS, job, slot)
    }

    fn needs_container(&self) -> String {
        format!("must have at least one container with name \"{}\"", FACTS.container)
    }

    fn elastic(&self, job: &JobView) -> Option<Elastic> {
        let policy = job.options.get("elasticPolicy").filter(|policy| !Value::is_null(policy))?;
        let policy: PaddleElasticPolicy = serde_json::from_value(policy.clone()).ok()?;
        let workers = job.role(WORKER).map(|role| role.replicas);
        Elastic::of(policy.min_replicas, policy.max_replicas, workers)
    }
}
