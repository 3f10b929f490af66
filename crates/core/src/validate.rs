//! The rules that hold for every kind: one rule set for admission, reconcile and `explain`.

use serde_json::Value;
use trainyard_api::labels::{self, managed_by};
use trainyard_api::{ReplicaSpec, ReplicaSpecs, RestartPolicy, RunPolicy};

use crate::field_error::FieldError;
use crate::framework::{Facts, Framework};
use crate::job::{JobView, Slot};
use crate::kind::Kind;
use crate::names;

/// More replicas than this in one job are taken for a mistake: a plan must stay a bounded piece of work.
pub(crate) const MAX_REPLICAS: u32 = 10_000;

/// Rules about the replica specs as the user wrote them.
pub(crate) fn specs(kind: &Kind, framework: &dyn Framework, specs: &ReplicaSpecs) -> Vec<FieldError> {
    let facts = framework.facts();
    let mut errors = Vec::new();
    for (role, spec) in specs {
        let path = kind.role_path(role);
        let is_known = |known: &&str| match kind.exact_replica_types {
            true => *known == role.as_str(),
            false => known.eq_ignore_ascii_case(role),
        };
        if !facts.roles.iter().any(is_known) {
            errors.push(FieldError::not_supported(&path, role, facts.roles));
        }
        if names::dns1035_error(&role.to_lowercase()).is_some() {
            errors.push(FieldError::invalid(&path, role, "a replica type becomes part of pod names"));
        }
        errors.extend(replica_spec(framework, &path, spec));
    }
    let total: u64 = specs.values().map(|s| s.replicas.map_or(1, |n| u64::try_from(n).unwrap_or(0))).sum();
    if total > u64::from(MAX_REPLICAS) {
        let path = format!("spec.{}", kind.replica_specs);
        errors.push(FieldError::invalid(path, total, format!("at most {MAX_REPLICAS} replicas in all")));
    }
    errors
}

fn replica_spec(framework: &dyn Framework, path: &str, spec: &ReplicaSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(replicas) = spec.replicas.filter(|n| *n < 0) {
        errors.push(FieldError::invalid(format!("{path}.replicas"), replicas, "must be at least 0"));
    }
    let unknown = |p: &&str| !p.is_empty() && RestartPolicy::parse(p).is_none();
    if let Some(policy) = spec.restart_policy.as_deref().filter(unknown) {
        let known = RestartPolicy::ALL.map(RestartPolicy::as_str);
        errors.push(FieldError::not_supported(format!("{path}.restartPolicy"), policy, &known));
    }
    let containers_path = format!("{path}.template.spec.containers");
    let containers = spec.template.0.pointer("/spec/containers").and_then(Value::as_array);
    let containers = containers.map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        errors.push(FieldError::required(&containers_path, "must be specified"));
    }
    let text = |c: &Value, field: &str| c.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (i, container) in containers.iter().enumerate() {
        if text(container, "image").is_empty() {
            errors.push(FieldError::required(format!("{containers_path}[{i}].image"), "must be required"));
        }
    }
    let facts = framework.facts();
    if !facts.any_container && !containers.iter().any(|c| text(c, "name") == facts.container) {
        errors.push(FieldError::required(&containers_path, framework.needs_container()));
    }
    errors
}

/// Rules about the run policy as the user wrote it.
pub(crate) fn run_policy(policy: &RunPolicy) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let known = [managed_by::TRAINING_OPERATOR, managed_by::MULTIKUEUE];
    if let Some(by) = policy.managed_by.as_deref().filter(|by| !known.contains(by)) {
        errors.push(FieldError::not_supported("spec.runPolicy.managedBy", by, &known));
    }
    let numbers = [
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit.map(i64::from)),
    ];
    for (field, value) in numbers {
        if let Some(value) = value.filter(|n| *n < 0) {
            errors.push(FieldError::invalid(format!("spec.runPolicy.{field}"), value, "must be at least 0"));
        }
    }
    errors
}

/// Rules about options that come as annotations.
pub(crate) fn annotations(job: &JobView) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |key: &str, holds: fn(&str) -> bool, detail: &str| {
        if let Some(text) = job.annotations.get(key).filter(|text| !holds(text)) {
            errors.push(FieldError::invalid(format!("metadata.annotations[{key}]"), text, detail));
        }
    };
    let positive = |text: &str| text.parse::<i64>().is_ok_and(|seconds| seconds > 0);
    check(labels::START_DEADLINE, positive, "must be a number of seconds, at least 1");
    let truth = |text: &str| ["true", "false"].contains(&text);
    for key in [labels::HOST_PORTS, labels::COUNT_INFRASTRUCTURE_FAILURES] {
        check(key, truth, "must be \"true\" or \"false\"");
    }
    let scope = |text: &str| ["job", "replica"].contains(&text);
    check(labels::RESTART_SCOPE, scope, "must be \"job\" or \"replica\"");
    errors
}

/// Rules about the name: it is part of the names of all replicas, and of their services where they have them.
pub(crate) fn name(facts: &Facts, job: &JobView) -> Vec<FieldError> {
    let detail = if !facts.services {
        let spare = job.name.len().saturating_sub(names::MAX_LABEL);
        if spare == 0 {
            return Vec::new();
        }
        format!("it is the value of a label, which has at most 63 characters: use {spare} fewer")
    } else if let Some(why) = names::dns1035_error(&job.name) {
        format!("should match: {why}")
    } else if let Some(child) = longest_child(job).filter(|child| child.len() > names::MAX_LABEL) {
        let spare = child.len() - names::MAX_LABEL;
        format!("its replica {child} would have a name of more than 63 characters: use {spare} fewer")
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid("metadata.name", &job.name, detail)]
}

fn longest_child(job: &JobView) -> Option<String> {
    let last = job.roles.iter().filter(|role| role.replicas > 0);
    let names = last.map(|role| Slot { role, index: role.replicas - 1 }.child_name(job));
    names.max_by_key(String::len)
}
