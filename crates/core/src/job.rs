//! A job as the engine sees it: decoded, defaulted, and free of the differences between kinds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use trainyard_api::{CleanPodPolicy, JobStatus, RestartPolicy, SchedulingPolicy, labels};

use crate::field_error::FieldError;
use crate::kind::Kind;
use crate::names;
use crate::record::Record;

/// A job, ready to be planned. No wire type: a second version of a kind is one more way to make this.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Where it came from.
    pub kind: &'static Kind,
    /// Namespace of the job and of all its children.
    pub namespace: String,
    /// Name of the job.
    pub name: String,
    /// The job's identity: children belong to it, not to the name.
    pub uid: String,
    /// Which version of the object this is; every write to the job is made on condition of it.
    pub resource_version: String,
    /// True once the user deleted the job.
    pub deleting: bool,
    /// The job's annotations: options of this operator come as `trainyard.dev/…`.
    pub annotations: BTreeMap<String, String>,
    /// Limits and clean-up.
    pub policy: Policy,
    /// Replica types in the framework's order.
    pub roles: Vec<Role>,
    /// The rest of the spec, for the framework: `successPolicy`, `elasticPolicy`, …
    pub options: Map<String, Value>,
    /// The status as stored.
    pub status: JobStatus,
    /// What the engine wrote down earlier.
    pub record: Record,
    /// False when the job carries no record, one that cannot be read, or that of another job.
    pub has_record: bool,
    /// Options of this operator that have no meaning. They are told and otherwise as if they were not there.
    pub ignored: Vec<FieldError>,
}

/// [`trainyard_api::RunPolicy`] with its defaults in place.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What is deleted at the end.
    pub clean: CleanPodPolicy,
    /// Seconds from the end to the deletion of the job.
    pub ttl: Option<i64>,
    /// Seconds the job may be active.
    pub deadline: Option<i64>,
    /// Restarts before a failure is final; unlimited if absent.
    pub backoff_limit: Option<u32>,
    /// The user wants no pods now.
    pub suspend: bool,
    /// Somebody else runs this job.
    pub managed_elsewhere: bool,
    /// Pods that must be placed together; all of them if absent.
    pub min_available: Option<u32>,
    /// What else a gang scheduler is told.
    pub scheduling: SchedulingPolicy,
}

/// One replica type of a job.
#[derive(Clone, Debug)]
pub struct Role {
    /// As in the spec: `Worker`.
    pub name: String,
    /// As in labels and names: `worker`.
    pub label: String,
    /// How many replicas.
    pub replicas: u32,
    /// What happens to one that ended.
    pub restart: RestartPolicy,
    /// The pod template as the user wrote it, ports added.
    pub template: Value,
    /// The port its peers reach it at.
    pub port: u16,
    /// Its only replica is named without a number.
    pub single: bool,
}

impl Role {
    /// True when its replicas have the network of their machine.
    pub fn on_host_network(&self) -> bool {
        self.template.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or(false)
    }
}

/// One replica: a role and an index.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The replica type.
    pub role: &'a Role,
    /// The index within the type.
    pub index: u32,
}

impl Slot<'_> {
    /// The name of this replica's pod and service.
    pub fn child_name(&self, job: &JobView) -> String {
        let Role { label, single, .. } = self.role;
        if *single { format!("{}-{label}", job.name) } else { names::child(&job.name, label, self.index) }
    }
}

impl JobView {
    /// The role of that name, in the canonical spelling.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name == name)
    }

    /// The role with that label value.
    pub fn role_by_label(&self, label: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.label == label)
    }

    /// Replicas of all types together.
    pub fn total_replicas(&self) -> u32 {
        self.roles.iter().map(|role| role.replicas).sum()
    }

    /// Every replica the spec asks for, in role order.
    pub fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        self.roles.iter().flat_map(|role| (0..role.replicas).map(move |index| Slot { role, index }))
    }

    /// Position of a slot among all slots; its port's place in the job's block.
    pub fn ordinal(&self, slot: Slot<'_>) -> u32 {
        let before: u32 =
            self.roles.iter().take_while(|role| role.name != slot.role.name).map(|role| role.replicas).sum();
        before + slot.index
    }

    /// When the deadline strikes, if there is one and the clock runs.
    pub fn deadline(&self) -> Option<Timestamp> {
        let start = self.status.start_time.as_ref()?.0;
        add_seconds(start, self.policy.deadline?)
    }

    /// Seconds within which all replicas must have started, if there is a limit.
    pub fn start_deadline(&self) -> Option<i64> {
        self.annotations.get(labels::START_DEADLINE)?.parse().ok().filter(|seconds| *seconds > 0)
    }

    /// True when it asks for ports of its own on the machines whose network its replicas have.
    pub fn asks_for_host_ports(&self) -> bool {
        self.annotations.get(labels::HOST_PORTS).is_some_and(|v| v == "true")
            && self.roles.iter().any(Role::on_host_network)
    }

    /// True when all replicas restart together.
    pub fn restarts_as_one(&self) -> bool {
        self.annotations.get(labels::RESTART_SCOPE).is_some_and(|scope| scope == "job")
    }

    /// True when the user wants infrastructure failures to use the budget too.
    pub fn counts_infrastructure(&self) -> bool {
        self.annotations.get(labels::COUNT_INFRASTRUCTURE_FAILURES).is_some_and(|v| v == "true")
    }
}

/// `t + seconds`, or nothing when that is beyond what a timestamp can hold: then it never comes.
pub fn add_seconds(t: Timestamp, seconds: i64) -> Option<Timestamp> {
    t.checked_add(jiff::SignedDuration::from_secs(seconds)).ok()
}
