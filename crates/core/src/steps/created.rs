//! The first look at a job.

use trainyard_api::ConditionStatus;
use trainyard_api::reasons::suffix;

use crate::conditions::{self, types};
use crate::plan::{Draft, Flow};
use crate::steps::gang;

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
    // Time in a queue is not time of the job's.
    if !job.policy.suspend && draft.status.start_time.is_none() && !gang::is_queued(draft) {
        draft.status.start_time = Some(draft.stamp());
    }
    Flow::Go
}
