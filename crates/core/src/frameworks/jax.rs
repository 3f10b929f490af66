//! JAX: worker 0 coordinates, and every worker is told where, its own number and how many there are. The program
//! passes them to `jax.distributed.initialize`: JAX reads none of these variables itself.

use trainyard_api::RestartPolicy;

use crate::framework::{Facts, Framework, Rendezvous};
use crate::job::{JobView, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;

/// See the module.
pub(super) struct Jax;

static FACTS: Facts = Facts {
    name: "jax",
    roles: &["Worker"],
    leaders: &[],
    followers: "Worker",
    container: "jax",
    port_name: "jaxjob-port",
    port: 6666,
    restart: RestartPolicy::Never,
    rendezvous: Rendezvous::Leader,
    ..Facts::USUAL
};

impl Framework for Jax {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        let coordinator = Slot { index: 0, ..slot };
        let env = [
            ("PYTHONUNBUFFERED", "1".to_owned()),
            ("COORDINATOR_PORT", net.port(coordinator).to_string()),
            ("COORDINATOR_ADDRESS", net.host(coordinator)),
            ("NUM_PROCESSES", job.total_replicas().to_string()),
            ("PROCESS_ID", slot.index.to_string()),
        ];
        for (name, value) in env {
            pod.set_env_everywhere(name, value);
        }
    }
}
