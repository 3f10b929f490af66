//! The pods: delete those nobody wants, create those that are missing.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use trainyard_api::labels;
use trainyard_api::reasons::event;

use crate::action::{Action, Resource, Why};
use crate::framework::Gate;
use crate::job::{Slot, add_seconds};
use crate::names;
use crate::plan::{Draft, Flow};
use crate::pod::{Cause, Phase, PodView};
use crate::record::Record;
use crate::report::Notice;
use crate::steps::tally::is_current;
use crate::steps::{build, gang};

/// Delay before the second restart of a replica; it doubles with each further one.
const FIRST_DELAY: i64 = 10;
/// No restart waits longer.
const LONGEST_DELAY: i64 = 300;
/// A replica that ran this long before it failed is restarted at once.
const HEALTHY: SignedDuration = SignedDuration::from_secs(600);
/// So many times other ports are tried without delay.
const PORT_TRIES: u32 = 5;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    scale_down(draft);
    let occupied = clear(draft);
    amend(draft);
    create(draft, &occupied);
    Flow::Go
}

/// Deletes pods that no slot asks for. Their numbers are raised first: if the job is scaled up again while they
/// end, their slots must not take them for failed replicas.
fn scale_down(draft: &mut Draft<'_>) {
    let job = draft.job();
    for pod in draft.slots.strays().to_vec() {
        let Some(index) = pod.index else { continue };
        let role = job.role_by_label(&pod.role).filter(|_| pod.attempt == draft.record.attempt);
        if let Some(role) = role {
            let slot = Slot { role, index };
            if draft.is_done(slot, pod) && is_current(pod, &draft.record, &role.name, index) {
                draft.record.finish(&role.name, index);
            }
            draft.record.raise(&role.name, index, pod.incarnation.saturating_add(1));
        }
        if pod.deleting.is_none() {
            draft.say("replicas", format!("{} is beyond the replicas asked for", pod.name));
        }
        draft.delete_pod(pod, Why::ScaledDown);
        end_on_lost_node(draft, pod);
    }
}

/// Deletes pods whose place is needed by a successor; returns the slots that are not free yet.
fn clear(draft: &mut Draft<'_>) -> BTreeSet<String> {
    let job = draft.job();
    let mut occupied = BTreeSet::new();
    for slot in job.slots() {
        let Some(pod) = draft.slots.pod(slot) else {
            continue;
        };
        occupied.insert(slot.child_name(job));
        end_on_lost_node(draft, pod);
        if is_current(pod, &draft.record, &slot.role.name, slot.index) {
            continue;
        }
        match due(&draft.record, pod).filter(|due| *due > draft.now() && pod.deleting.is_none()) {
            Some(due) => {
                draft.wake_at(due);
                draft.say("restart", format!("{} is replaced at {due}", pod.name));
            }
            None => draft.delete_pod(pod, Why::Replaced),
        }
    }
    occupied
}

/// When a failed pod makes room for its successor. It is kept until then: users read its log meanwhile, and the
/// time needs no place in the record.
fn due(record: &Record, pod: &PodView) -> Option<Timestamp> {
    if pod.phase != Phase::Failed {
        return None;
    }
    let cause = pod.cause();
    let earlier = record.starts_before(pod);
    let (end, earlier) = if cause == Cause::PortTaken {
        // Other ports are tried, and the next ones are most likely free.
        (pod.created?, earlier.saturating_sub(PORT_TRIES))
    } else if pod.never_started() {
        // A node that refuses a pod refuses the next one just as fast.
        (pod.created?, earlier)
    } else if cause.is_infrastructure() {
        return None;
    } else {
        let (started, finished) = pod.last_run()?;
        if started.is_some_and(|started| finished.duration_since(started) >= HEALTHY) {
            return None;
        }
        (finished, earlier)
    };
    let doublings = earlier.checked_sub(1)?.min(16);
    add_seconds(by_our_clock(pod, end), (FIRST_DELAY << doublings).min(LONGEST_DELAY))
}

/// The end of a pod is told by its node, whose clock may be wrong: a pod cannot have ended before it was created, nor
/// after its end was seen.
fn by_our_clock(pod: &PodView, end: Timestamp) -> Timestamp {
    let end = pod.created.map_or(end, |created| end.max(created));
    pod.seen_over.map_or(end, |seen| end.min(seen))
}

/// A pod whose node is gone ends only by force: its name stays taken until then.
fn end_on_lost_node(draft: &mut Draft<'_>, pod: &PodView) {
    let patience = draft.seen.options.lost_node_seconds;
    let lost = pod.disruption.as_deref() == Some("DeletionByTaintManager");
    let (Some(since), true, true) = (pod.deleting, lost, patience > 0) else {
        return;
    };
    let Some(due) = add_seconds(since, patience) else {
        return;
    };
    if due > draft.now() {
        draft.wake_at(due);
        return;
    }
    let (name, uid) = (pod.name.to_string(), pod.uid.to_string());
    draft.act(Action::Delete { what: &Resource::POD, name, uid, force: true, why: Why::NodeLost });
}

/// Puts right what pods say of themselves: labels that somebody removed (without them they are not watched), and
/// the size of a gang that was scaled before it was placed (or it would wait for replicas that never come).
fn amend(draft: &mut Draft<'_>) {
    let job = draft.job();
    let gang = build::gang_size(job, &draft.record);
    for slot in job.slots() {
        let Some(pod) = draft.slots.pod(slot).filter(|pod| pod.deleting.is_none()) else { continue };
        let mut metadata = Map::new();
        if !pod.labelled {
            metadata.insert("labels".into(), json!(names::labels(job, slot)));
        }
        if pod.phase == Phase::Pending && pod.gang.is_some_and(|size| size != gang) {
            metadata.insert("annotations".into(), json!({ labels::GANG_SIZE: gang.to_string() }));
        }
        if metadata.is_empty() {
            continue;
        }
        metadata.insert("uid".into(), json!(&*pod.uid));
        let (name, uid) = (pod.name.to_string(), pod.uid.to_string());
        draft.act(Action::Amend { what: &Resource::POD, name, uid, patch: json!({ "metadata": metadata }) });
    }
}

fn create(draft: &mut Draft<'_>, occupied: &BTreeSet<String>) {
    let job = draft.job();
    let leftovers = draft.seen.pods.iter().filter(|pod| pod.attempt < draft.record.attempt).count();
    if leftovers > 0 {
        draft.say("replicas", format!("{leftovers} pod(s) of an earlier attempt have not ended yet"));
        return;
    }
    let missing: Vec<Slot<'_>> = job
        .slots()
        .filter(|slot| !draft.record.is_finished(&slot.role.name, slot.index))
        .filter(|slot| !occupied.contains(&slot.child_name(job)))
        .collect();
    if let (Some(why), false) = (draft.hold.clone(), missing.is_empty()) {
        draft.say("replicas", format!("no pod is created: {}", why.text));
        return;
    }
    let (mut created, mut overwritten) = (false, false);
    for slot in missing {
        let name = slot.child_name(job);
        if let Gate::Closed(why) = draft.framework.may_start(job, &draft.tally, slot) {
            draft.say("replicas", format!("{name} waits: {why}"));
        } else if may_try(draft, &Resource::POD, &name) {
            overwritten |= slot.role.template.pointer("/spec/restartPolicy").is_some_and(Value::is_string);
            let pod = build::pod(draft.framework, job, slot, &draft.record, draft.seen.options);
            draft.act(Action::Create(pod));
            created = true;
        }
    }
    if created {
        gang::tell_other_scheduler(draft);
    }
    if overwritten {
        let message = "Restart policy in pod template overridden by restart policy in replica spec";
        draft.tell(Notice::warning(event::TEMPLATE_RESTART_POLICY, message));
    }
}

/// Whether a write that was refused before may be tried again; if not, says when and why.
pub(crate) fn may_try(draft: &mut Draft<'_>, what: &Resource, name: &str) -> bool {
    let Some(failure) = draft.seen.failures.iter().find(|f| f.what == what && f.name == name) else {
        return true;
    };
    let Some(due) = failure.again().filter(|due| failure.is_lasting() && *due > draft.now()) else {
        return true;
    };
    draft.wake_at(due);
    let text = format!("{} {name} was refused ({}): {}", what.kind, failure.code, failure.message);
    draft.say("refused", text);
    false
}
