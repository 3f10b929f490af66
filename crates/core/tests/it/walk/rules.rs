//! What must hold in every state, whatever the world did before.

use trainyard_api::{ConditionStatus, JobStatus};
use trainyard_core::conditions::{is_finished, is_true, types};
use trainyard_core::*;

use super::job::Job;
use super::moves::Time;
use super::pod::{Age, Asked, Life, Pod};
use super::state::{Kept, Refuses, State};

/// What must never be planned. `seen` is the job, `status` its status after the plan.
pub(super) fn of_a_plan(
    state: &State,
    job: &Job,
    seen: &JobView,
    status: &JobStatus,
    plan: &Plan,
    time: Time,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let creates = |a: &Action| matches!(a, Action::Create(child) if *child.what == Resource::POD);
    let creates = plan.actions.iter().any(creates);
    // A record that was lost may be written once more, from what the pods know.
    let records = plan.record.is_some() && state.record == Kept::Own;
    if is_finished(&seen.status) && (plan.status.is_some() || records || creates) {
        wrong.push(format!("an end is not the end: {plan:?}"));
    }
    if plan.record.is_some() && state.refuses == Refuses::Record {
        wrong.push("a record that the server refuses is tried again at once".into());
    }
    if creates && (state.suspend || state.broken || is_finished(status)) {
        wrong.push("a pod is created for a job that is suspended, invalid or over".into());
    }
    let pods = state.replicas.iter().map(|replica| replica.cached.map_or(replica.pod, |cached| cached.pod));
    let runs = |pod: Pod| matches!(pod.life, Life::Running | Life::Down) && pod.asked == Asked::Never;
    if is_true(status, types::RUNNING) && !pods.flatten().any(runs) {
        wrong.push("Running without a pod that runs".into());
    }
    if is_true(status, types::INVALID_SPEC) && (!state.broken || is_finished(status)) {
        wrong.push("InvalidSpec where the spec is valid, or where the job has failed for it".into());
    }
    if job.detail.search {
        wrong.extend(of_an_end(state, job, seen, status));
        wrong.extend(of_refused_pods(state, job, plan, time));
    }
    wrong
}

/// A job ends as it does for a reason that is there.
fn of_an_end(state: &State, job: &Job, seen: &JobView, status: &JobStatus) -> Option<String> {
    if is_finished(&seen.status) {
        return None;
    }
    let wanted = state.wanted(job);
    let decided = |replicas: &[usize]| {
        let worked = |place: &&usize| {
            let replica = &state.replicas[**place];
            replica.worked || replica.pod.is_some_and(Pod::worked)
        };
        replicas.iter().filter(|place| **place < wanted).all(|place| worked(&place))
    };
    let worked = decided(&job.deciding);
    if is_true(status, types::SUCCEEDED) && !worked {
        return Some("the job has Succeeded, and who decides has not done its work".into());
    }
    if !is_true(status, types::FAILED) {
        return None;
    }
    let truth = state.truth;
    let used_up = job.detail.limit.is_some_and(|limit| truth.failures > limit);
    let known = job.deciding.iter().filter(|place| **place < wanted).all(|place| {
        let replica = &state.replicas[*place];
        let seen = replica.cached.map_or(replica.pod, |cached| cached.pod);
        replica.finished || seen.is_some_and(|pod| pod.life == Life::Succeeded && pod.age == Age::Current)
    });
    let mut deciding = job.deciding.iter().filter(|place| **place < wanted);
    let ends = deciding.any(|place| !job.runs_for_ever(*place));
    let by_the_spec = state.broken && !(worked && known && ends);
    (!truth.fatal && !used_up && !by_the_spec && !job.detail.trouble).then(|| {
        let failed =
            status.conditions.iter().find(|c| c.type_ == types::FAILED && c.status == ConditionStatus::TRUE);
        format!("the job has Failed without a reason: {:?}", failed.and_then(|c| c.message.as_deref()))
    })
}

/// A pod that its node refused is replaced at once only the first time.
fn of_refused_pods(state: &State, job: &Job, plan: &Plan, time: Time) -> Option<String> {
    if state.fresh || time == Time::Late || state.suspend {
        return None;
    }
    let deleted = |name: &str| {
        plan.actions.iter().any(|action| {
            matches!(action, Action::Delete { what, name: n, .. } if **what == Resource::POD && n == name)
        })
    };
    let over = plan.status.as_ref().is_some_and(is_finished) || state.is_over(job);
    let asked_for = job.view.slots().zip(&state.replicas).take(state.wanted(job));
    for (slot, replica) in asked_for.filter(|_| !over) {
        let pod = replica.cached.map_or(replica.pod, |cached| cached.pod);
        let name = slot.child_name(&job.view);
        if pod.is_some_and(|pod| pod.life == Life::Refused && pod.age == Age::Current) && deleted(&name) {
            return Some(format!("{name} was refused by its node again, and is replaced at once"));
        }
    }
    None
}

/// What must never come of a plan that was carried out.
pub(super) fn of_a_step(before: &State, after: &State, job: &Job) -> Vec<String> {
    if !job.detail.search {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for (slot, replica) in job.view.slots().zip(&after.replicas) {
        let own = after.record == Kept::Own && !before.is_over(job);
        if own && replica.finished && !replica.worked && !replica.pod.is_some_and(Pod::worked) {
            wrong.push(format!("{} is written down as finished, and is not", slot.child_name(&job.view)));
        }
    }
    if job.detail.limit.is_some_and(|limit| after.truth.paid > limit) {
        wrong.push(format!(
            "{} restarts were paid for by a limit of {:?}",
            after.truth.paid, job.detail.limit
        ));
    }
    wrong
}

/// What must hold where the operator has nothing left to do.
pub(super) fn of_rest(state: &State, job: &Job) -> Option<String> {
    let starts_yet = |pod: Pod| pod.life == Life::Pending && pod.asked == Asked::Never && !pod.stopped;
    let starts_yet = state.replicas.iter().filter_map(|replica| replica.pod).any(starts_yet);
    (state.is_over(job) && starts_yet).then(|| "a pod of a job that has ended is yet to start".into())
}
