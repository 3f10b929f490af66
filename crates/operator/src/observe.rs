//! From the caches to a plan: everything that is known of one job at one moment, and what follows from it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use trainyard_api::JobStatus;
use trainyard_core::conditions::is_finished;
use trainyard_core::decode::Undecodable;
use trainyard_core::invalid::{InvalidJob, plan_broken, plan_invalid};
use trainyard_core::{
    Addressing, Decoded, ExtraView, FieldError, JobView, Kind, Plan, PodView, PortBlock, PortSpace,
    Priorities, Seen, ServiceView, Tail, WriteFailure, decode, plan, ports_held,
};

use crate::jobs::Job;
use crate::queue::Key;
use crate::shell::Shell;
use crate::sinks::EXTRAS;

/// What is known of a job.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) key: Key,
    pub(crate) job: Job,
    pub(crate) now: Timestamp,
    pods: Vec<PodView>,
    services: Vec<ServiceView>,
    extras: Vec<ExtraView>,
    failures: Vec<WriteFailure>,
    priorities: Arc<Priorities>,
}

/// A plan, and the status it was made from, as it is stored.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) status: Value,
}

/// Looks at a job; nothing if there is none.
pub(crate) fn observe(shell: &Shell, key: &Key) -> Option<Observed> {
    let job = shell.jobs().get(key)?.clone();
    let pods = shell.pods().of(&job.uid);
    let services = shell.services().of(&job.uid);
    let extras = EXTRAS.iter().flat_map(|extra| (extra.cache)(shell).of(&job.uid)).collect();
    let failures = shell.memory().failures(key, job.spec);
    let priorities = shell.classes().priorities();
    Some(Observed { key: key.clone(), job, now: shell.now(), pods, services, extras, failures, priorities })
}

/// The ports that a job holds by its record, as far as it may.
pub(crate) fn ports_of(shell: &Shell, kind: &'static Kind, raw: &str) -> Option<PortBlock> {
    let object: Value = serde_json::from_str(raw).ok()?;
    let decoded = decode(&shell.catalog.0, kind, &object).ok()?;
    ports_held(decoded.framework, &decoded.job, shell.options.plan.addressing)
}

impl Observed {
    /// Decides what to do.
    pub(crate) fn plan(&self, shell: &Shell, tail: Option<&Tail>) -> Planned {
        let mut object: Value = match serde_json::from_str(&self.job.raw) {
            Ok(object) => object,
            Err(error) => return self.unreadable(&error),
        };
        let plan = match decode(&shell.catalog.0, self.key.kind(), &object) {
            Ok(decoded) if decoded.errors.is_empty() || is_finished(&decoded.job.status) => {
                self.plan_valid(shell, &decoded, tail)
            }
            Ok(decoded) => {
                let make = |ports: Option<&PortSpace>| {
                    let seen = self.seen(shell, &decoded.job, ports, tail);
                    plan_broken(decoded.framework, &seen, &decoded.errors)
                };
                self.holding_ports(shell, &decoded, make)
            }
            Err(bad) => {
                let Undecodable { error, status, managed_elsewhere } = *bad;
                self.plan_invalid(&status, managed_elsewhere, &[error])
            }
        };
        let status = object.get_mut("status").map(Value::take).unwrap_or_default();
        Planned { plan, status }
    }

    fn seen<'a>(
        &'a self,
        shell: &'a Shell,
        job: &'a JobView,
        ports: Option<&'a PortSpace>,
        tail: Option<&'a Tail>,
    ) -> Seen<'a> {
        Seen {
            job,
            pods: &self.pods,
            services: &self.services,
            extras: &self.extras,
            ports,
            failures: &self.failures,
            tail,
            priorities: &self.priorities,
            options: &shell.options.plan,
            now: self.now,
        }
    }

    fn plan_valid(&self, shell: &Shell, decoded: &Decoded, tail: Option<&Tail>) -> Plan {
        self.holding_ports(shell, decoded, |ports| {
            plan(decoded.framework, &self.seen(shell, &decoded.job, ports, tail))
        })
    }

    /// Makes a plan, and notes which ports the job holds by it.
    fn holding_ports(
        &self,
        shell: &Shell,
        decoded: &Decoded,
        make: impl Fn(Option<&PortSpace>) -> Plan,
    ) -> Plan {
        let options = &shell.options.plan;
        let asks = decoded.job.asks_for_host_ports() || decoded.job.record.ports.is_some();
        if options.addressing != Addressing::HostPorts && !asks {
            return make(None);
        }
        // Under one lock from the look at the free ports to the note of what was picked.
        let mut book = shell.ports();
        // What other jobs hold is known when all of them have been shown.
        let space = book.space(&self.job.uid).filter(|_| shell.health.all_listed());
        let plan = make(space.as_ref());
        let mut after = decoded.job.clone();
        after.status = plan.status.clone().unwrap_or(after.status);
        after.record = plan.record.clone().unwrap_or(after.record);
        book.hold(&self.job.uid, ports_held(decoded.framework, &after, options.addressing));
        plan
    }

    fn plan_invalid(&self, status: &JobStatus, managed_elsewhere: bool, errors: &[FieldError]) -> Plan {
        let job = InvalidJob {
            kind: self.key.kind(),
            namespace: &self.key.namespace,
            name: &self.key.name,
            deleting: self.job.deleting,
            managed_elsewhere,
            status,
            judged: false,
            errors,
            pods: &self.pods,
        };
        plan_invalid(&job, self.now)
    }

    /// The text is JSON, but no value: a number too large, nested too deep. The status is read by itself, so that
    /// what is said about the job is said once.
    fn unreadable(&self, error: &serde_json::Error) -> Planned {
        #[derive(Deserialize)]
        struct StatusOnly<'a> {
            #[serde(borrow, default)]
            status: Option<&'a RawValue>,
        }
        let only: Option<StatusOnly<'_>> = serde_json::from_str(&self.job.raw).ok();
        let text = only.and_then(|only| only.status).map_or("null", RawValue::get);
        let status: Option<Value> = serde_json::from_str(text).ok();
        let typed = status.as_ref().map(|status| JobStatus::deserialize(status).unwrap_or_default());
        let (Some(status), Some(typed)) = (status, typed) else {
            return Planned { plan: Plan::default(), status: Value::Null };
        };
        let errors = [FieldError::wrong_type("spec", error)];
        Planned { plan: self.plan_invalid(&typed, false, &errors), status }
    }
}
