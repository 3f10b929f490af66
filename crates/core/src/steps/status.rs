//! What the status says about a job that has not ended.

use trainyard_api::reasons::suffix;
use trainyard_api::{ConditionStatus, ReplicaStatus};

use crate::conditions::{self, is_true, types};
use crate::framework::Verdict;
use crate::job::Slot;
use crate::names;
use crate::plan::{Draft, Flow};
use crate::pod::{Phase, PodView};
use crate::report::Notice;
use crate::steps::ending;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    count(draft);
    if let Some(message) = restarting(draft) {
        if draft.set_condition(types::RESTARTING, ConditionStatus::TRUE, suffix::RESTARTING, &message) {
            draft.tell(Notice::warning(draft.job().kind.reason(suffix::RESTARTING), message));
        }
    } else if none_runs(draft) {
        conditions::lower(&mut draft.status, types::RUNNING);
    } else if draft.framework.verdict(draft.job(), &draft.tally) == Verdict::Running {
        running(draft);
    }
    Flow::Go
}

/// The job was running, and none of its replicas is.
fn none_runs(draft: &Draft<'_>) -> bool {
    is_true(&draft.status, types::RUNNING) && !draft.tally.any_active()
}

/// Some replicas are done before the others have begun: nothing is restarted.
fn between_replicas(draft: &Draft<'_>) -> bool {
    let (job, tally) = (draft.job(), &draft.tally);
    let (done, others): (Vec<_>, Vec<_>) =
        job.slots().partition(|slot| tally.slot_succeeded(&slot.role.name, slot.index));
    let begins = |slot: &Slot<'_>| {
        let first = draft.record.incarnation(&slot.role.name, slot.index) == 0;
        let new = |pod: &PodView| {
            pod.phase == Phase::Pending && pod.deleting.is_none() && pod.restarts_in_place() == 0
        };
        first && draft.slots.pod(*slot).is_none_or(new)
    };
    !done.is_empty() && others.iter().all(begins)
}

/// Writes the counts of every role.
pub(crate) fn count(draft: &mut Draft<'_>) {
    let job = draft.job();
    let some = |n: u32| i32::try_from(n).ok().filter(|n| *n > 0);
    for role in &job.roles {
        let count = draft.tally.of(&role.name);
        let status = ReplicaStatus {
            active: some(count.active),
            succeeded: some(count.succeeded),
            failed: some(count.failed),
            label_selector: None,
            selector: job.kind.selector_in_status.then(|| names::selector(job, &role.label)),
        };
        draft.status.replica_statuses.insert(role.name.clone(), status);
    }
    draft.status.replica_statuses.retain(|name, _| job.role(name).is_some());
}

/// Sets Running.
pub(crate) fn running(draft: &mut Draft<'_>) {
    let message = format!("{} {} is running.", draft.job().kind.name, ending::subject(draft));
    draft.set_condition(types::RUNNING, ConditionStatus::TRUE, suffix::RUNNING, &message);
}

/// Why the job is restarting, if it is: some replica is down, or none is up that was.
fn restarting(draft: &Draft<'_>) -> Option<String> {
    let job = draft.job();
    let down = job.roles.iter().find_map(|role| {
        let count = draft.tally.of(&role.name);
        let short = count.wanted > count.succeeded + count.active;
        let tolerated = draft.framework.tolerates(job, &role.name);
        (count.failed > 0 && short && !tolerated).then_some((&role.name, count.failed))
    });
    if let Some((role, failed)) = down {
        let (kind, name) = (job.kind.name, &job.name);
        return Some(format!("{kind} {name} is restarting because {failed} {role} replica(s) failed."));
    }
    let gone = none_runs(draft) && !between_replicas(draft);
    gone.then(|| format!("{} {} is restarting because its pods are gone.", job.kind.name, job.name))
}
