//! XGBoost and LightGBM: the master runs the tracker, and every replica is told its address, its own rank and the
//! size of the world. LightGBM needs no tracker but a list of all: the workers' addresses and port.

use trainyard_api::RestartPolicy;

use crate::field_error::FieldError;
use crate::framework::{Facts, Framework, Rendezvous};
use crate::job::{JobView, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;

/// See the module.
pub(super) struct XGBoost;

static FACTS: Facts = Facts {
    name: "xgboost",
    roles: &[MASTER, WORKER],
    leaders: &[MASTER],
    followers: WORKER,
    container: "xgboost",
    port_name: "xgboostjob-port",
    port: 9999,
    restart: RestartPolicy::Never,
    rendezvous: Rendezvous::Leader,
    ..Facts::USUAL
};

const MASTER: &str = "Master";
const WORKER: &str = "Worker";

impl Framework for XGBoost {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        let Some(master) = job.role(MASTER) else { return };
        let tracker = Slot { role: master, index: 0 };
        let before = if slot.role.name == MASTER { 0 } else { master.replicas };
        let world = job.total_replicas();
        let mut env = vec![
            ("MASTER_PORT", net.port(tracker).to_string()),
            ("MASTER_ADDR", net.host(tracker)),
            ("WORLD_SIZE", world.to_string()),
            ("RANK", slot.index.saturating_add(before).to_string()),
            ("PYTHONUNBUFFERED", "1".to_owned()),
        ];
        if let Some(role) = job.role(WORKER).filter(|_| world > 1) {
            let hosts: Vec<String> = (0..role.replicas).map(|index| net.host(Slot { role, index })).collect();
            // On one machine workers have a port each, and there is one variable: it tells a worker its own.
            let shown = if slot.role.name == WORKER { slot } else { Slot { role, index: 0 } };
            env.push(("WORKER_PORT", net.port(shown).to_string()));
            env.push(("WORKER_ADDRS", hosts.join(",")));
        }
        for (name, value) in env {
            pod.set_env_everywhere(name, value);
        }
    }

    fn validate(&self, job: &JobView) -> Vec<FieldError> {
        let path = job.kind.role_path(MASTER);
        match job.role(MASTER) {
            None => vec![FieldError::required(path, "must be present")],
            Some(master) if master.replicas != 1 => {
                vec![FieldError::forbidden(format!("{path}.replicas"), "must be 1")]
            }
            Some(_) => Vec::new(),
        }
    }

    /// The tracker does not set `SO_REUSEADDR`: for a minute after its end nobody can listen there again.
    fn needs_new_port(&self) -> bool {
        true
    }
}
