//! What makes pods: deployments, replica sets, jobs.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{age, condition, containers, has, human, int, moment, selector, text};
use crate::object::at;

const CONTAINERS: &str = "spec.template.spec.containers";

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    // A selector that is missing selects nothing, and says so by saying nothing.
    let selects = at(object, "spec.selector").map_or(Some(String::new()), selector);
    vec![
        text(object, "metadata.name").into(),
        format!("{}/{}", int(object, "status.readyReplicas"), int(object, "spec.replicas")).into(),
        int(object, "status.updatedReplicas").into(),
        int(object, "status.availableReplicas").into(),
        age(object, now),
        names,
        images,
        selects.unwrap_or_else(|| "<invalid>".into()).into(),
    ]
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![
        text(object, "metadata.name").into(),
        int(object, "spec.replicas").into(),
        int(object, "status.replicas").into(),
        int(object, "status.readyReplicas").into(),
        age(object, now),
        names,
        images,
        formatted_selector(object),
    ]
}

/// The selector where an empty one is worth a word.
fn formatted_selector(object: &Value) -> Value {
    let selects = at(object, "spec.selector").map_or(Some(String::new()), selector);
    match selects.as_deref() {
        Some("") => "<none>".into(),
        Some(text) => text.into(),
        None => "<error>".into(),
    }
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![
        text(object, "metadata.name").into(),
        job_status(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age(object, now),
        names,
        images,
        formatted_selector(object),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind, "True");
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if has(job, "metadata.deletionTimestamp") => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = int(job, "status.succeeded");
    match (at(job, "spec.completions").and_then(Value::as_i64), int(job, "spec.parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    match (moment(job, "status.startTime"), moment(job, "status.completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human(start, end.unwrap_or(now)),
    }
}
