//! How a job ends, whichever step finds out.

use trainyard_api::reasons::suffix;
use trainyard_api::{CleanPodPolicy, ConditionStatus};

use crate::conditions::{self, types};
use crate::framework::{decider, has_leader};
use crate::kind::Wording;
use crate::plan::Draft;
use crate::record::Sweep;
use crate::report::Notice;
use crate::steps::{status, terminal};

/// The job has done what it was for.
pub(crate) fn succeed(draft: &mut Draft<'_>) {
    let message = format!("{} {} {}.", draft.job().kind.name, subject(draft), wording(draft).succeeded);
    // However short it was, it ran: whoever waits for Running must not wait for ever.
    status::running(draft);
    for type_ in [types::WAITING, types::INVALID_SPEC] {
        conditions::remove(&mut draft.status, type_);
    }
    draft.set_condition(types::SUCCEEDED, ConditionStatus::TRUE, suffix::SUCCEEDED, &message);
    draft.tell(Notice::normal(draft.job().kind.reason(suffix::SUCCEEDED), &message));
    status::count(draft);
    forget_servants(draft);
    for replicas in draft.status.replica_statuses.values_mut() {
        // Replicas that merely served the others have done their part too.
        let all = replicas.succeeded.unwrap_or(0).saturating_add(replicas.active.unwrap_or(0));
        replicas.succeeded = (all > 0).then_some(all);
        replicas.active = None;
    }
    end(draft, "succeeded", &message);
}

/// The job cannot do what it was for.
pub(crate) fn fail(draft: &mut Draft<'_>, message: &str) {
    fail_with(draft, message, Notice::normal(draft.job().kind.reason(suffix::FAILED), message));
}

/// The same by an exit code that says so: that is a warning.
pub(crate) fn fail_by_code(draft: &mut Draft<'_>, message: &str) {
    fail_with(draft, message, Notice::warning(draft.job().kind.reason(suffix::FAILED), message));
}

fn fail_with(draft: &mut Draft<'_>, message: &str, notice: Notice) {
    let shown =
        draft.status.conditions.iter().any(|c| [types::RUNNING, types::RESTARTING].contains(&&*c.type_));
    if !shown && draft.tally.any_ran() {
        status::running(draft);
    }
    conditions::lower(&mut draft.status, types::RESTARTING);
    conditions::remove(&mut draft.status, types::WAITING);
    draft.set_condition(types::FAILED, ConditionStatus::TRUE, suffix::FAILED, message);
    draft.tell(notice);
    status::count(draft);
    let facts = draft.framework.facts();
    if decider(facts, draft.job()).is_some_and(|role| draft.tally.of(role).failed > 0) {
        forget_servants(draft);
    }
    end(draft, "failed", message);
}

/// Where only the deciding replica's end means anything, the others are not counted after it.
fn forget_servants(draft: &mut Draft<'_>) {
    let facts = draft.framework.facts();
    let decider = decider(facts, draft.job());
    let servants =
        draft.status.replica_statuses.iter_mut().filter(|(role, _)| Some(role.as_str()) != decider);
    for (_, replicas) in servants.filter(|_| !facts.servants_count) {
        (replicas.active, replicas.succeeded, replicas.failed) = (None, None, None);
    }
}

fn end(draft: &mut Draft<'_>, step: &'static str, message: &str) {
    if draft.status.completion_time.is_none() {
        draft.status.completion_time = Some(draft.stamp());
    }
    draft.say(step, message);
    sweep_strays(draft);
    terminal::after_end(draft);
}

/// A job that was scaled down to replicas that had all succeeded leaves none of the others running. That is written
/// down: a job that has ended is not scaled, so later looks would leave them alone.
fn sweep_strays(draft: &mut Draft<'_>) {
    let alive = draft.slots.strays().iter().any(|pod| !pod.phase.is_over());
    if alive && draft.record.sweep == Sweep::Unstarted && draft.job().policy.clean == CleanPodPolicy::None {
        draft.record.sweep = Sweep::Beyond;
    }
}

/// The kind's wording for this job.
pub(crate) fn wording(draft: &Draft<'_>) -> Wording {
    (draft.job().kind.wording)(has_leader(draft.framework.facts(), draft.job()))
}

/// How Running and Succeeded name the job.
pub(crate) fn subject(draft: &Draft<'_>) -> String {
    name(draft, wording(draft).qualified)
}

/// "… because 1 Worker replica(s) failed."
pub(crate) fn failed_message(draft: &Draft<'_>, role: &str, count: u32) -> String {
    let wording = wording(draft);
    let name = name(draft, wording.failed_qualified);
    format!("{} {name} {} {count} {role} replica(s) failed.", draft.job().kind.name, wording.failed)
}

fn name(draft: &Draft<'_>, qualified: bool) -> String {
    let job = draft.job();
    if qualified { format!("{}/{}", job.namespace, job.name) } else { job.name.clone() }
}
