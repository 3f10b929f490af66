//! Jobs: pods that run to their end. What to do is decided in `plan`; here it is seen and done.
//!
//! A pod counts once, whatever fails in between: it keeps a finalizer until it stands in the job's status, first by its
//! uid, then in a counter.

mod indexes;
mod plan;
mod policy;

use futures::future::join_all;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

use self::plan::{Case, FINALIZER, INDEX, Plan, Verdict};
use self::policy::Meaning;
use super::client::{Actor, Refused, path};
use super::index::Kind;
use super::pods::{self, Pod};
use super::record::{Note, record};
use super::{Controllers, Look};
use crate::object::{at, is_deleting, meta, set_at, time};
use crate::selector::LabelSelector;
use crate::store::{Stored, contains};

const ACTOR: Actor = Actor { component: "job-controller" };

pub(super) async fn look(all: &Controllers, stored: &Stored) -> Look {
    let mut job = stored.value().map_err(Refused::internal)?;
    let managed =
        at(&job, "spec.managedBy").and_then(Value::as_str).unwrap_or("kubernetes.io/job-controller");
    if managed != "kubernetes.io/job-controller" {
        return Ok(None);
    }
    if is_finished(&job) {
        return expire(all, &job).await;
    }
    let selector = LabelSelector::from_object(at(&job, "spec.selector").unwrap_or(&Value::Null))
        .map_err(Refused::internal)?;
    let pods = pods::claim(all, ACTOR, (Kind::Job, &stored.key), &job, &selector).await?;
    let now = all.app.now();
    let mut status = at(&job, "status").and_then(Value::as_object).cloned().unwrap_or_default();
    let suspended = at(&job, "spec.suspend") == Some(&Value::Bool(true));
    if !status.contains_key("startTime") && !suspended {
        status.insert("startTime".into(), time(now).into());
        set_at(&mut job, &["status".into(), "startTime".into()], time(now).into());
    }
    let case = Case { job: &job, pods: &pods, now };
    let plan = case.plan();
    let work = act(all, &case, &plan).await;
    count(&case, &plan, &work, &mut status);
    let notes = conditions(&case, &plan, &mut status);
    let counted = track(&case, &plan, &mut status);
    let written = write(all, stored, status).await?;
    for note in notes {
        record(&all.client, ACTOR, &job, &note, now).await;
    }
    settle(all, &case, &plan, &work, counted, written).await?;
    work.failure.map_or(Ok(plan.again), Err)
}

fn is_finished(job: &Value) -> bool {
    let list = at(job, "status.conditions").and_then(Value::as_array);
    list.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        ["Complete", "Failed"].contains(&text("type")) && text("status") == "True"
    })
}

/// Deletes a finished job when its time is over.
async fn expire(all: &Controllers, job: &Value) -> Look {
    let Some(seconds) = at(job, "spec.ttlSecondsAfterFinished").and_then(Value::as_i64) else {
        return Ok(None);
    };
    if is_deleting(job) {
        return Ok(None);
    }
    let list = at(job, "status.conditions").and_then(Value::as_array);
    let ended = list.into_iter().flatten().find_map(|condition| {
        let kind = condition.get("type")?.as_str()?;
        let ended = condition.get("lastTransitionTime")?.as_str()?;
        ["Complete", "Failed"].contains(&kind).then(|| ended.parse::<jiff::Timestamp>().ok())?
    });
    let left = ended.map_or(0, |ended| ended.as_second() + seconds - all.app.now().as_second());
    if left > 0 {
        return Ok(Some(Duration::from_secs(left.unsigned_abs())));
    }
    all.client.delete(ACTOR, &place(job), meta(job, "uid"), "Foreground").await?;
    Ok(None)
}

fn place(job: &Value) -> String {
    path("batch/v1", meta(job, "namespace"), "jobs", meta(job, "name"))
}

/// What became of the plan.
#[derive(Debug, Default)]
struct Work {
    created: i64,
    deleted: i64,
    deleted_ready: i64,
    failure: Option<Refused>,
}

async fn act(all: &Controllers, case: &Case<'_>, plan: &Plan<'_>) -> Work {
    let mut work = Work::default();
    let deletions = plan.delete.iter().map(|pod| remove(all, case.job, pod, plan.uncounted));
    for (pod, deleted) in plan.delete.iter().zip(join_all(deletions).await) {
        match deleted {
            Ok(()) => {
                work.deleted += 1;
                work.deleted_ready += i64::from(pod.is_ready());
            }
            Err(refused) => work.failure = Some(refused),
        }
    }
    let Some((first, rest)) = plan.create.split_first() else { return work };
    let make = |index: &Option<i64>| {
        let pod = pod(case.job, *index);
        async move { pods::create(all, ACTOR, case.job, &pod).await }
    };
    // One first: when the template is refused, it is refused once.
    let mut results = vec![make(first).await];
    if results.iter().all(Result::is_ok) {
        results.extend(join_all(rest.iter().map(make)).await);
    }
    for result in results {
        match result {
            Ok(_) => work.created += 1,
            Err(refused) if refused.is_terminating() => {}
            Err(refused) => work.failure = Some(refused),
        }
    }
    work
}

/// Deletes a pod; first without its finalizer, when it shall not count.
async fn remove(all: &Controllers, job: &Value, pod: &Pod, uncounted: bool) -> Result<(), Refused> {
    if uncounted {
        release(all, pod).await?;
    }
    pods::delete(all, ACTOR, job, pod).await
}

/// Takes the finalizer from a pod. One that is gone is no error.
pub(super) async fn release(all: &Controllers, pod: &Pod) -> Result<(), Refused> {
    if !pod.has_finalizer(FINALIZER) {
        return Ok(());
    }
    let kept: Vec<&String> = pod.metadata.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "finalizers": kept}});
    match all.client.patch(ACTOR, &pod.path(), &patch).await {
        Err(refused) if ![404, 409].contains(&refused.code) => Err(refused),
        _ => Ok(()),
    }
}

/// A pod of the job, to be created.
fn pod(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pods::from_template(job, at(job, "spec.template").unwrap_or(&Value::Null));
    let mut set = |path: &[&str], value: Value| {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        set_at(&mut pod, &path, value);
    };
    let mut finalizers: Vec<Value> =
        at(job, "spec.template.metadata.finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.iter().any(|f| f == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    set(&["metadata", "finalizers"], finalizers.into());
    let Some(index) = index else { return pod };
    let name = meta(job, "name");
    set(&["metadata", "generateName"], format!("{name}-{index}-").into());
    set(&["metadata", "annotations", INDEX], index.to_string().into());
    set(&["metadata", "labels", INDEX], index.to_string().into());
    set(&["spec", "hostname"], format!("{name}-{index}").into());
    for list in ["containers", "initContainers"] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(tell_index);
    }
    pod
}

/// `JOB_COMPLETION_INDEX`, from the annotation.
fn tell_index(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    if let Some(list) = variables.as_array_mut()
        && !list.iter().any(|v| v.get("name").and_then(Value::as_str) == Some(NAME))
    {
        let field = json!({"fieldPath": format!("metadata.annotations['{INDEX}']")});
        list.push(json!({"name": NAME, "valueFrom": {"fieldRef": field}}));
    }
}

/// The counts of pods that are there.
fn count(case: &Case<'_>, plan: &Plan<'_>, work: &Work, status: &mut Map<String, Value>) {
    let active = case.active();
    let ready = active.iter().filter(|pod| pod.is_ready()).count();
    let living = i64::try_from(active.len()).unwrap_or(i64::MAX) - work.deleted + work.created;
    let ready = i64::try_from(ready).unwrap_or(i64::MAX) - work.deleted_ready;
    put(status, "active", living);
    status.insert("ready".into(), ready.into());
    status.insert("terminating".into(), (case.terminating() + work.deleted).into());
    if case.is_indexed() {
        put(status, "succeeded", plan.done.len());
        let text = plan.done.text();
        if text.is_empty() {
            status.remove("completedIndexes");
        } else {
            status.insert("completedIndexes".into(), text.into());
        }
        if let Some(failed) = &plan.failed_indexes {
            status.insert("failedIndexes".into(), failed.text().into());
        }
    }
}

/// A count that is not shown while it is 0.
fn put(status: &mut Map<String, Value>, field: &str, number: i64) {
    if number == 0 {
        status.remove(field);
    } else {
        status.insert(field.into(), number.into());
    }
}

fn set_condition(
    status: &mut Map<String, Value>,
    name: &str,
    state: &str,
    why: (&str, &str),
    now: &str,
) -> bool {
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return false };
    let (reason, message) = why;
    let fresh = json!({"type": name, "status": state, "lastProbeTime": now, "lastTransitionTime": now,
        "reason": reason, "message": message});
    let known = list.iter_mut().find(|c| c.get("type").and_then(Value::as_str) == Some(name));
    match known {
        Some(known) => {
            let text = |field: &str| known.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("status") == state && text("reason") == reason && text("message") == message {
                return false;
            }
            *known = fresh;
        }
        None if state == "False" => return false,
        None => list.push(fresh),
    }
    true
}

/// Conditions about suspension and the coming end, and what is to be told of them.
fn conditions(case: &Case<'_>, plan: &Plan<'_>, status: &mut Map<String, Value>) -> Vec<Note> {
    let now = time(case.now);
    let mut notes = Vec::new();
    if let Some(Verdict { success, reason, message }) = &plan.verdict {
        let name = if *success { "SuccessCriteriaMet" } else { "FailureTarget" };
        set_condition(status, name, "True", (reason, message), &now);
    } else if is_deleting(case.job) {
        return notes;
    } else if case.is_suspended() {
        if set_condition(status, "Suspended", "True", ("JobSuspended", "Job suspended"), &now) {
            notes.push(Note::normal("Suspended", "Job suspended".into()));
            status.remove("startTime");
        }
    } else if set_condition(status, "Suspended", "False", ("JobResumed", "Job resumed"), &now) {
        notes.push(Note::normal("Resumed", "Job resumed".into()));
        status.insert("startTime".into(), now.into());
    }
    if status.get("conditions").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        status.remove("conditions");
    }
    notes
}

/// Notes the uids of pods that are over. Returns the pods whose finalizer may go once that is written.
fn track<'a>(case: &Case<'a>, plan: &Plan<'_>, status: &mut Map<String, Value>) -> Vec<&'a Pod> {
    let mut lists = [("succeeded", case.uncounted("succeeded")), ("failed", case.uncounted("failed"))];
    let holding: BTreeSet<&str> =
        case.pods.iter().filter(|p| p.has_finalizer(FINALIZER)).map(|p| p.metadata.uid.as_str()).collect();
    let mut released = Vec::new();
    for pod in case.pods.iter().filter(|pod| pod.has_finalizer(FINALIZER)) {
        let uid = pod.metadata.uid.as_str();
        let (over, failed) = (pod.status.phase == "Succeeded", case.is_failed(pod));
        let ended = plan.verdict.is_some() || is_deleting(case.job);
        // A pod of a suspended job was released before.
        if !(over || failed || ended) {
            continue;
        }
        released.push(pod);
        let [(_, succeeded_uids), (_, failed_uids)] = &mut lists;
        if over && !failed_uids.contains(uid) {
            if !case.is_indexed() {
                succeeded_uids.insert(uid);
            }
        } else if (failed || plan.verdict.as_ref().is_some_and(|verdict| !verdict.success))
            && case.counts_for_index(pod)
            && policy::meaning(case.policy(), pod) != Meaning::Ignored
        {
            failed_uids.insert(uid);
        }
    }
    let mut uncounted = Map::new();
    for (kind, uids) in lists {
        // Whose finalizer is gone is counted for good.
        let (waiting, done): (Vec<&str>, Vec<&str>) = uids.into_iter().partition(|uid| holding.contains(uid));
        if !waiting.is_empty() {
            uncounted.insert(kind.into(), json!(waiting));
        }
        if !done.is_empty() {
            add(status, kind, done.len());
        }
    }
    status.insert("uncountedTerminatedPods".into(), uncounted.into());
    released
}

fn add(status: &mut Map<String, Value>, field: &str, more: usize) {
    let known = status.get(field).and_then(Value::as_i64).unwrap_or(0);
    put(status, field, known + i64::try_from(more).unwrap_or(0));
}

async fn write(all: &Controllers, stored: &Stored, status: Map<String, Value>) -> Result<Value, Refused> {
    let mut job = stored.value().map_err(Refused::internal)?;
    if job.get("status").and_then(Value::as_object) == Some(&status) {
        return Ok(job);
    }
    set_at(&mut job, &["status".into()], status.into());
    all.client.update(ACTOR, &format!("{}/status", place(&job)), &job).await
}

/// Lets the pods go that are noted, moves their uids into the counters, and ends the job if that was the last.
async fn settle(
    all: &Controllers,
    case: &Case<'_>,
    plan: &Plan<'_>,
    work: &Work,
    released: Vec<&Pod>,
    job: Value,
) -> Result<(), Refused> {
    for result in join_all(released.iter().map(|pod| release(all, pod))).await {
        result?;
    }
    let mut status = at(&job, "status").and_then(Value::as_object).cloned().unwrap_or_default();
    for kind in ["succeeded", "failed"] {
        let path = format!("status.uncountedTerminatedPods.{kind}");
        let uids = at(&job, &path).and_then(Value::as_array).map_or(0, Vec::len);
        if uids > 0 {
            add(&mut status, kind, uids);
        }
    }
    status.insert("uncountedTerminatedPods".into(), json!({}));
    let terminating = case.terminating() + work.deleted;
    let ended = plan.verdict.as_ref().filter(|_| terminating == 0 && work.failure.is_none());
    if let Some(Verdict { success, reason, message }) = ended {
        let name = if *success { "Complete" } else { "Failed" };
        let now = time(case.now);
        set_condition(&mut status, name, "True", (reason, message), &now);
        if *success {
            status.insert("completionTime".into(), now.into());
        }
    }
    if job.get("status").and_then(Value::as_object) != Some(&status) {
        let mut new = job.clone();
        set_at(&mut new, &["status".into()], status.into());
        all.client.update(ACTOR, &format!("{}/status", place(&job)), &new).await?;
    }
    if let Some(Verdict { success, reason, message }) = ended {
        let note = match success {
            true => Note::normal("Completed", "Job completed".into()),
            false => Note::warning(end_reason(reason), message.clone()),
        };
        record(&all.client, ACTOR, &job, &note, case.now).await;
    }
    Ok(())
}

/// The reasons a job fails for, as the events have them.
fn end_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 5] = [
        "PodFailurePolicy",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "BackoffLimitExceeded",
    ];
    REASONS.into_iter().find(|known| *known == reason).unwrap_or("BackoffLimitExceeded")
}

/// A pod whose job is gone lets go of it.
pub(super) async fn orphan(all: &Controllers, stored: &Stored) -> Look {
    // Looking for the name is far cheaper than reading the pod, and nearly no pod has it.
    if !contains(&stored.bytes, FINALIZER.as_bytes()) {
        return Ok(None);
    }
    let Some(pod) = Pod::of(stored).filter(|pod| pod.has_finalizer(FINALIZER)) else {
        return Ok(None);
    };
    let controller = pod.metadata.owner_references.iter().find(|owner| owner.controller);
    if !controller.is_some_and(|owner| all.index.is_owner(&owner.uid)) {
        release(all, &pod).await?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::plan::index_of;
    use super::*;

    #[test]
    fn an_indexed_pod_knows_its_index() {
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {
            "spec": {"containers": [{"name": "a"}]}}}});
        let pod = pod(&job, Some(3));
        assert_eq!(pod["metadata"]["generateName"], "j-3-");
        assert_eq!(pod["spec"]["hostname"], "j-3");
        assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
        assert_eq!(index_of(&serde_json::from_value(pod).unwrap()), Some(3));
    }

    #[test]
    fn conditions_change_only_when_they_say_something_else() {
        let mut status = Map::new();
        assert!(!set_condition(&mut status, "Suspended", "False", ("r", "m"), "t"));
        assert!(set_condition(&mut status, "Suspended", "True", ("r", "m"), "t"));
        assert!(!set_condition(&mut status, "Suspended", "True", ("r", "m"), "later"));
        assert!(set_condition(&mut status, "Suspended", "False", ("r2", "m"), "t"));
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
    }
}
