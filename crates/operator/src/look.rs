//! One look at one job from outside: what an operator would make of it now, and why, without doing any of it.
//!
//! Commands and pages ask this. They read the objects themselves, because they show more of them than decisions
//! need; what the objects mean is read here, by the code the operator itself reads with.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trainyard_api::JobStatus;
use trainyard_core::conditions::is_finished;
use trainyard_core::decode::Undecodable;
use trainyard_core::invalid::{InvalidJob, plan_broken, plan_invalid};
use trainyard_core::{
    Addressing, Around, Catalog, Decoded, ExtraView, FieldError, Kind, Options, Plan, PodView, Priorities,
    Seen, ServiceView, decode, plan,
};

use crate::pod_wire;
use crate::wire::{self, Meta, Owner};

/// What a job is and what becomes of it.
pub struct Look {
    /// The job, if it decodes.
    pub decoded: Option<Decoded>,
    /// Its pods, by name.
    pub pods: Vec<PodView>,
    /// What an operator would do now. Not to be carried out: it was made without the operator's own memory.
    pub plan: Plan,
}

/// The children of a job, as plans see them.
#[derive(Clone, Debug, Default)]
pub struct Kin {
    /// Its pods.
    pub pods: Vec<PodView>,
    /// Its services.
    pub services: Vec<ServiceView>,
}

/// The job that controls an object.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace, and the object's.
    pub namespace: Arc<str>,
    /// Its identity.
    pub uid: Box<str>,
}

impl Controller {
    fn of(catalog: &Catalog, meta: &Meta) -> Option<Self> {
        let Owner { uid, key } = meta.owner(catalog.kinds)?;
        Some(Self { kind: key.kind(), namespace: key.namespace, uid })
    }
}

/// Reads the JSON of a pod; nothing if no job controls it.
pub fn read_pod(catalog: &Catalog, json: &str) -> Option<(Controller, PodView)> {
    let (meta, view) = pod_wire::pod(json, catalog.kinds).ok()?;
    Some((Controller::of(catalog, &meta)?, view))
}

/// Reads the JSON of a service; nothing if no job controls it.
pub fn read_service(catalog: &Catalog, json: &str) -> Option<(Controller, ServiceView)> {
    let (meta, view) = wire::service(json).ok()?;
    Some((Controller::of(catalog, &meta)?, view))
}

/// Looks at a job and its children.
pub fn look(catalog: &Catalog, kind: &'static Kind, job: &Value, kin: Kin, now: Timestamp) -> Look {
    let Kin { pods, services } = kin;
    let invalid = |status: &JobStatus, managed_elsewhere: bool, errors: &[FieldError]| {
        let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let deleting = !text("/metadata/deletionTimestamp").is_empty();
        let pods = &pods;
        plan_invalid(
            &InvalidJob {
                kind,
                namespace,
                name,
                deleting,
                managed_elsewhere,
                status,
                judged: false,
                errors,
                pods,
            },
            now,
        )
    };
    let (decoded, plan) = match decode(catalog, kind, job) {
        Ok(decoded) => {
            let plan = plan_decoded(&decoded, &pods, &services, now);
            (Some(decoded), plan)
        }
        Err(bad) => {
            let Undecodable { error, status, managed_elsewhere } = *bad;
            (None, invalid(&status, managed_elsewhere, &[error]))
        }
    };
    Look { decoded, pods, plan }
}

fn plan_decoded(decoded: &Decoded, pods: &[PodView], services: &[ServiceView], now: Timestamp) -> Plan {
    // How the operator was started is not written anywhere but in what it did: a job with ports and no
    // services was given them on one machine.
    let by_port = decoded.job.record.ports.is_some() && services.is_empty();
    let addressing = if by_port { Addressing::HostPorts } else { Addressing::Service };
    let options = Options { addressing, ..Options::default() };
    let job = &decoded.job;
    // The rest is not looked at: it is taken to be there, as it should be.
    let around = Around { job, running: &[], options: &options };
    let extras: Vec<ExtraView> = decoded.framework.extras(around).iter().map(ExtraView::granted).collect();
    let extras = &extras;
    let seen = Seen {
        job,
        pods,
        services,
        extras,
        ports: None,
        failures: &[],
        tail: None,
        priorities: &Priorities::default(),
        options: &options,
        now,
    };
    if decoded.errors.is_empty() || is_finished(&job.status) {
        plan(decoded.framework, &seen)
    } else {
        plan_broken(decoded.framework, &seen, &decoded.errors)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(replicas: i64) -> Value {
        let kind = Catalog::default().kind("PyTorchJob").unwrap();
        let framework = Catalog::default().framework(kind.framework).unwrap().facts();
        let template = json!({ "spec": { "containers": [{ "name": framework.container, "image": "i" }] } });
        json!({
            "apiVersion": kind.api_version(), "kind": kind.name,
            "metadata": { "name": "a", "namespace": "n", "uid": "u" },
            "spec": { kind.replica_specs: { framework.followers: { "replicas": replicas, "template": template } } },
        })
    }

    fn looked(job: &Value, pods: &[Value]) -> Look {
        let catalog = Catalog::default();
        let own = pods.iter().filter_map(|pod| read_pod(&catalog, &pod.to_string()));
        let own = own.filter(|(controller, _)| &*controller.uid == "u").map(|(_, view)| view);
        let kin = Kin { pods: own.collect(), services: Vec::new() };
        look(&catalog, catalog.kind("PyTorchJob").unwrap(), job, kin, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_what_the_job_controls_is_counted() {
        let kind = Catalog::default().kind("PyTorchJob").unwrap();
        let pod = |name: &str, owner: &str| {
            let owner = json!({ "apiVersion": kind.api_version(), "kind": kind.name, "name": "a", "uid": owner,
                                "controller": true });
            json!({ "metadata": { "name": name, "namespace": "n", "uid": name, "ownerReferences": [owner] } })
        };
        let seen = looked(&job(2), &[pod("x", "u"), pod("y", "other")]);
        assert_eq!(seen.pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["x"]);
        assert!(!seen.plan.actions.is_empty(), "there is work for an operator");
    }

    #[test]
    fn what_is_wrong_with_a_job_is_said() {
        let seen = looked(&job(-1), &[]);
        assert!(seen.plan.report.to_string().contains("the spec is invalid"), "{}", seen.plan.report);
        let seen = looked(&json!({ "metadata": { "name": "a", "uid": "u" }, "spec": 1 }), &[]);
        assert!(seen.decoded.is_none() && !seen.plan.report.lines.is_empty());
    }
}
