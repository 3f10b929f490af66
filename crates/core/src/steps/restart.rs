//! Replicas that failed: replace them, or fail the job.
//!
//! `backoffLimit: N` means N restarts, for every policy: the failure after the Nth restart fails the job. Restarts
//! that the kubelet makes in place and restarts that we make with a new pod are one sum. What cannot be the user's
//! fault costs nothing.

use trainyard_api::ConditionStatus;
use trainyard_api::RestartPolicy;
use trainyard_api::reasons::suffix;

use crate::conditions::types;
use crate::framework::{Rendezvous, is_leader};
use crate::job::{Role, Slot};
use crate::plan::{Draft, Flow};
use crate::pod::{Cause, Phase, PodView};
use crate::record::Record;
use crate::report::Notice;
use crate::seen::Addressing;
use crate::steps::tally::is_current;
use crate::steps::{ending, exits, first};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let slots: Vec<(Slot<'_>, &PodView)> = current_pods(draft);
    if let Some(fatal) = fatal(draft, &slots) {
        tell_exits(draft, &slots);
        match fatal {
            Fatal::Failure(message) => ending::fail(draft, &message),
            Fatal::ExitCode(message) => ending::fail_by_code(draft, &message),
        }
        return Flow::Done;
    }
    let lost: Vec<Loss<'_>> = slots.iter().filter_map(|(slot, pod)| loss(draft, *slot, pod)).collect();
    if budget_is_over(draft, &slots, &lost) {
        tell_exits(draft, &slots);
        let message =
            format!("Job {} has failed because it has reached the specified backoff limit", draft.job().name);
        ending::fail(draft, &message);
        return Flow::Done;
    }
    if !lost.is_empty() || more_is_tolerated(draft) {
        tell_exits(draft, &slots);
    }
    if !lost.is_empty() {
        replace(draft, &slots, &lost);
    }
    Flow::Go
}

/// Why no restart may follow: the message of the Failed condition.
enum Fatal {
    /// A replica that may not be restarted failed.
    Failure(String),
    /// A replica ended with a code that means it would fail again.
    ExitCode(String),
}

/// True when more replicas have failed whose failure is of no consequence than the status says.
fn more_is_tolerated(draft: &Draft<'_>) -> bool {
    draft.job().roles.iter().filter(|role| draft.framework.tolerates(draft.job(), &role.name)).any(|role| {
        let told = draft.status.replica_statuses.get(&role.name).and_then(|status| status.failed);
        i64::from(draft.tally.of(&role.name).failed) > i64::from(told.unwrap_or(0))
    })
}

/// A replica that needs a new pod.
struct Loss<'a> {
    slot: Slot<'a>,
    pod: &'a PodView,
    /// What it takes from the budget, besides the pod's own restarts in place.
    cost: u32,
}

fn current_pods<'a>(draft: &Draft<'a>) -> Vec<(Slot<'a>, &'a PodView)> {
    let seen = &draft.seen;
    let pods = seen.job.slots().filter_map(|slot| Some((slot, draft.slots.pod(slot)?)));
    pods.filter(|(slot, pod)| is_current(pod, &draft.record, &slot.role.name, slot.index)).collect()
}

/// True when the pod counts as failed for a replica that may not be restarted.
fn ended_badly(pod: &PodView, container: &str) -> bool {
    match pod.phase {
        Phase::Failed => true,
        Phase::Running => pod.deleting.is_some(),
        // It was asked to end, and obeyed.
        Phase::Succeeded => !pod.has_succeeded(container),
        Phase::Pending | Phase::Unknown => false,
    }
}

/// A role that may not be restarted and of which a pod that ran is gone without a trace: whoever deletes a pod by force
/// leaves nothing to see. The status still counts it.
fn vanished<'a>(draft: &Draft<'a>) -> Option<&'a str> {
    let job = draft.job();
    let lost = |role: &&Role| {
        let ran = job.status.replica_statuses.get(&role.name).and_then(|status| status.active);
        let is_known = |slot: &Slot<'_>| {
            draft.slots.pod(*slot).is_some() || draft.record.is_finished(&role.name, slot.index)
        };
        let slots = job.slots().filter(|slot| slot.role.name == role.name).filter(is_known).count();
        let strays = draft.slots.strays().iter().filter(|pod| *pod.role == *role.label).count();
        ran.and_then(|ran| usize::try_from(ran).ok()).is_some_and(|ran| ran > slots + strays)
    };
    let mut final_ = job
        .roles
        .iter()
        .filter(|role| role.restart == RestartPolicy::Never && !draft.framework.tolerates(job, &role.name));
    final_.find(lost).map(|role| role.name.as_str())
}

/// A failure that no restart may follow.
fn fatal(draft: &Draft<'_>, slots: &[(Slot<'_>, &PodView)]) -> Option<Fatal> {
    let container = draft.framework.facts().container;
    if let Some(role) = vanished(draft) {
        let failed = draft.tally.of(role).failed.saturating_add(1);
        return Some(Fatal::Failure(ending::failed_message(draft, role, failed)));
    }
    slots.iter().find_map(|(slot, pod)| {
        let role = slot.role.name.as_str();
        if pod.cause() == Cause::PortTaken {
            return None;
        }
        let tolerated = draft.framework.tolerates(draft.job(), role);
        match slot.role.restart {
            RestartPolicy::Never if ended_badly(pod, container) && !tolerated => {
                Some(Fatal::Failure(ending::failed_message(draft, role, draft.tally.of(role).failed)))
            }
            RestartPolicy::ExitCode if pod.phase == Phase::Failed && !pod.ended_by_deletion() => {
                // A program that is told to end by its node may end with any code: that code means nothing.
                let own = !pod.cause().is_infrastructure();
                let permanent = own && pod.exit_code(container).is_some_and(|code| code < 128);
                let job = &draft.job().name;
                let message = || format!("job \"{job}\" is failing because \"{role}\" replica(s) failed.");
                permanent.then(|| Fatal::ExitCode(message()))
            }
            RestartPolicy::Never
            | RestartPolicy::ExitCode
            | RestartPolicy::Always
            | RestartPolicy::OnFailure => None,
        }
    })
}

/// Whether a replica needs a new pod, and at what cost.
fn loss<'a>(draft: &Draft<'_>, slot: Slot<'a>, pod: &'a PodView) -> Option<Loss<'a>> {
    let tolerated = draft.framework.tolerates(draft.job(), &slot.role.name);
    if pod.phase == Phase::Failed && !pod.ended_by_deletion() {
        let cause = pod.cause();
        if tolerated && slot.role.restart == RestartPolicy::Never && cause != Cause::PortTaken {
            return None;
        }
        let free =
            cause == Cause::PortTaken || (cause.is_infrastructure() && !draft.job().counts_infrastructure());
        return Some(Loss { slot, pod, cost: u32::from(!free) });
    }
    // Somebody deletes it while it could still run. Its successor must not be taken for it, and its restarts in
    // place must not be forgotten with it.
    let done = draft.is_done(slot, pod);
    let ending = !done && (pod.deleting.is_some() || pod.phase == Phase::Succeeded);
    let counts = match pod.disruption {
        Some(_) => draft.job().counts_infrastructure(),
        // The program ended by itself, and is started again whatever its end was: that is a restart like the kubelet's.
        None => pod.deleting.is_none(),
    };
    ending.then_some(Loss { slot, pod, cost: u32::from(counts) })
}

/// True when what has happened is more than the user allowed.
fn budget_is_over(draft: &Draft<'_>, slots: &[(Slot<'_>, &PodView)], lost: &[Loss<'_>]) -> bool {
    let Some(limit) = draft.job().policy.backoff_limit else {
        return false;
    };
    let in_place = slots.iter().map(|(slot, pod)| pod.ends_in_place(slot.role.restart));
    let now = in_place.fold(cost_of(draft, lost), u32::saturating_add);
    // Where nothing fails, nothing ends, whatever is written about earlier failures.
    now > 0 && now.saturating_add(draft.record.restarts) > limit
}

/// True when restarts alone, those of the kubelet among them, are more than the user allowed.
pub(crate) fn budget_is_used_up(draft: &Draft<'_>) -> bool {
    let slots: Vec<(Slot<'_>, &PodView)> =
        draft.job().slots().filter_map(|slot| Some((slot, draft.slots.pod(slot)?))).collect();
    budget_is_over(draft, &slots, &[])
}

fn cost_of(draft: &Draft<'_>, lost: &[Loss<'_>]) -> u32 {
    let costs = lost.iter().map(|loss| loss.cost);
    if restarts_as_one(draft, lost) { costs.max().unwrap_or(0) } else { costs.fold(0, u32::saturating_add) }
}

/// All replicas start anew when the user wants it so, or when the others know the lost one by its port.
fn restarts_as_one(draft: &Draft<'_>, lost: &[Loss<'_>]) -> bool {
    if draft.job().restarts_as_one() {
        return !lost.is_empty();
    }
    let facts = draft.framework.facts();
    if draft.seen.options.addressing == Addressing::Service {
        let moves = draft.record.ports.is_some() && draft.framework.needs_new_port();
        return moves && lost.iter().any(|loss| is_leader(facts, draft.job(), loss.slot));
    }
    lost.iter().any(|loss| {
        facts.rendezvous == Rendezvous::Everyone
            || loss.pod.cause() == Cause::PortTaken
            || is_leader(facts, draft.job(), loss.slot)
    })
}

/// Starts all replicas anew for another reason than a failure. Restarts that the kubelet made stay counted.
pub(crate) fn start_over(draft: &mut Draft<'_>) {
    let pods = current_pods(draft);
    add_in_place(draft, pods.into_iter());
    draft.record.start_attempt(next_attempt(draft));
}

/// The next attempt: one that no pod has, whatever somebody wrote on it.
fn next_attempt(draft: &Draft<'_>) -> u32 {
    let told = draft.seen.pods.iter().map(|pod| pod.attempt).filter(|attempt| *attempt <= Record::LARGEST);
    told.fold(draft.record.attempt, u32::max).saturating_add(1)
}

/// Writes down the restarts in place of pods that go.
fn add_in_place<'a>(draft: &mut Draft<'_>, pods: impl Iterator<Item = (Slot<'a>, &'a PodView)>) {
    let in_place = pods.map(|(slot, pod)| pod.restarts_of(slot.role.restart));
    draft.record.restarts = in_place.fold(draft.record.restarts, u32::saturating_add);
}

/// Writes down that the pods are lost; the step for replicas deletes and creates.
fn replace(draft: &mut Draft<'_>, slots: &[(Slot<'_>, &PodView)], lost: &[Loss<'_>]) {
    let cost = cost_of(draft, lost);
    draft.record.restarts = draft.record.restarts.saturating_add(cost);
    if restarts_as_one(draft, lost) {
        add_in_place(draft, slots.iter().copied());
        draft.record.start_attempt(next_attempt(draft));
    } else {
        add_in_place(draft, lost.iter().map(|loss| (loss.slot, loss.pod)));
        for loss in lost {
            let next = loss.pod.incarnation.saturating_add(1);
            draft.record.raise(&loss.slot.role.name, loss.slot.index, next);
        }
    }
    draft.recount();
    for loss in lost {
        let why =
            if loss.pod.phase == Phase::Failed { loss.pod.cause().as_str() } else { "it is being deleted" };
        draft.say("restart", format!("{} is replaced: {why}", loss.pod.name));
    }
    let Some(failed) = lost.iter().find(|loss| loss.pod.phase == Phase::Failed) else {
        return;
    };
    let (job, role) = (&draft.job().name, &failed.slot.role.name);
    let message = format!("job {job} is restarting because {role} replica(s) failed.");
    draft.set_condition(types::RESTARTING, ConditionStatus::TRUE, suffix::RESTARTING, &message);
    draft.tell(Notice::warning(draft.job().kind.reason(suffix::RESTARTING), &message));
}

/// Ends that are acted upon now are told.
fn tell_exits(draft: &mut Draft<'_>, slots: &[(Slot<'_>, &PodView)]) {
    let failed = slots.iter().map(|(_, pod)| *pod).filter(|pod| pod.phase == Phase::Failed);
    let failed: Vec<&PodView> = failed.collect();
    exits::tell(draft, &failed);
    let own = |(slot, pod): &(Slot<'_>, &PodView)| {
        pod.is_down(slot.role.restart) || (pod.phase == Phase::Failed && !pod.ended_by_deletion())
    };
    let own: Vec<&PodView> = slots.iter().filter(|pair| own(pair)).map(|(_, pod)| *pod).collect();
    first::name(draft, &own);
}
