//! What the status says about a job that has not ended.

use trainyard_api::reasons::suffix;
use trainyard_api::{ConditionStatus, ReplicaStatus};

use crate::conditions::{is_true, types};
use crate::framework::Verdict;
use crate::names;
use crate::plan::{Draft, Flow};
use crate::report::Notice;
use crate::steps::ending;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    count(draft);
    if let Some(message) = restarting(draft) {
        if draft.set_condition(types::RESTARTING, ConditionStatus::TRUE, suffix::RESTARTING, &message) {
            draft.tell(Notice::warning(draft.job().kind.reason(suffix::RESTARTING), message));
        }
    } else if draft.framework.verdict(draft.job(), &draft.tally) == Verdict::Running {
        running(draft);
    }
    Flow::Go
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
    let gone = is_true(&draft.status, types::RUNNING) && !draft.tally.any_active();
    gone.then(|| format!("{} {} is restarting because its pods are gone.", job.kind.name, job.name))
}
