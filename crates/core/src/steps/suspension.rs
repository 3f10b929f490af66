//! Suspend and resume: the user takes the pods away and gives them back.

use trainyard_api::ConditionStatus;
use trainyard_api::reasons::suffix;

use crate::action::Why;
use crate::conditions::{self, is_true, types};
use crate::plan::{Draft, Flow};
use crate::report::Notice;
use crate::steps::{extras, gang, restart, unwritten};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    if draft.job().policy.suspend {
        suspend(draft);
        return Flow::Done;
    }
    if is_true(&draft.status, types::SUSPENDED) {
        resume(draft);
    }
    Flow::Go
}

fn suspend(draft: &mut Draft<'_>) {
    let job = draft.job();
    leave_behind(draft);
    for pod in draft.seen.pods {
        draft.delete_pod(pod, Why::Suspended);
    }
    for service in draft.seen.services {
        draft.delete_service(service, Why::Suspended);
    }
    extras::suspended(draft);
    conditions::remove(&mut draft.status, types::WAITING);
    draft.record.begun = false;
    for replicas in draft.status.replica_statuses.values_mut() {
        replicas.active = None;
    }
    let message = format!("{} {} is suspended.", job.kind.name, job.name);
    for type_ in [types::RUNNING, types::RESTARTING] {
        if is_true(&draft.status, type_) {
            draft.set_condition(type_, ConditionStatus::FALSE, suffix::SUSPENDED, &message);
        }
    }
    if draft.set_condition(types::SUSPENDED, ConditionStatus::TRUE, suffix::SUSPENDED, &message) {
        draft.tell(Notice::normal(job.kind.reason(suffix::SUSPENDED), &message));
    }
    draft.say("suspension", "runPolicy.suspend is true: no pods until it is false");
}

/// Whatever runs now belongs to the past: after the resume every replica starts anew.
fn leave_behind(draft: &mut Draft<'_>) {
    let past = draft.seen.pods.iter().any(|pod| pod.attempt == draft.record.attempt);
    if past || !draft.record.finished.is_empty() {
        restart::start_over(draft);
        draft.record.resumed = draft.record.attempt;
        draft.recount();
    }
}

fn resume(draft: &mut Draft<'_>) {
    let job = draft.job();
    // The pods of a suspended job are deleted also where the server refuses the record that says so. What is left of them
    // must not count as replicas that failed.
    leave_behind(draft);
    if unwritten::refusal(draft).is_some() {
        draft.say("suspension", "not resumed yet: that its pods are of the past cannot be stored");
        return;
    }
    let message = format!("{} {} is resumed.", job.kind.name, job.name);
    draft.set_condition(types::SUSPENDED, ConditionStatus::FALSE, suffix::RESUMED, &message);
    // Time in a queue is not time of the job's: one that has to wait for its gang starts when it is let in.
    draft.status.start_time = (!gang::is_queued(draft)).then(|| draft.stamp());
    draft.tell(Notice::normal(job.kind.reason(suffix::RESUMED), &message));
    draft.say("suspension", "resumed: the deadline counts from its start");
}
