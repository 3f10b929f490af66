//! The first look at a job.

use trainyard_api::ConditionStatus;
use trainyard_api::reasons::suffix;

use crate::conditions::{self, Change, types};
use crate::field_error::one_line;
use crate::plan::{Draft, Flow};
use crate::report::Notice;
use crate::steps::gang;

/// Options without a meaning are told for as long as they are there; the job goes on as if they were not.
fn ignored(draft: &mut Draft<'_>) {
    let job = draft.job();
    if job.ignored.is_empty() {
        conditions::remove(&mut draft.status, types::INVALID_ANNOTATION);
        return;
    }
    let what = one_line(&job.ignored);
    let message =
        format!("{} {}/{}: {what}. The annotation is ignored.", job.kind.name, job.namespace, job.name);
    let reason = job.kind.reason(suffix::INVALID_ANNOTATION);
    let change = Change {
        type_: types::INVALID_ANNOTATION,
        status: ConditionStatus::TRUE,
        reason: &reason,
        message: &message,
    };
    draft.say("created", &message);
    if conditions::explain(&mut draft.status, change, draft.seen.now) {
        draft.tell(Notice::warning(reason, message));
    }
}

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let job = draft.job();
    let seen_before = draft.status.conditions.iter().any(|c| c.type_ == types::CREATED);
    if !seen_before {
        let mut message = format!("{} {} is created.", job.kind.name, job.name);
        if job.total_replicas() == 0 {
            // Nothing else would ever be said of it.
            message.push_str(" It asks for no replicas, so it has no pods.");
        }
        draft.set_condition(types::CREATED, ConditionStatus::TRUE, suffix::CREATED, &message);
    }
    // The spec reads again: whatever was said about it is no longer so.
    if conditions::remove(&mut draft.status, types::INVALID_SPEC) {
        draft.say("created", "the spec is valid again");
    }
    ignored(draft);
    // Time in a queue is not time of the job's.
    if !job.policy.suspend && draft.status.start_time.is_none() && !gang::is_queued(draft) {
        draft.status.start_time = Some(draft.stamp());
    }
    Flow::Go
}
