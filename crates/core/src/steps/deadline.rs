//! `activeDeadlineSeconds`: counted from the start or the last resume, and kept even if nothing else happens.

use crate::job::add_seconds;
use crate::plan::{Draft, Flow};
use crate::steps::ending;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let job = draft.job();
    // From the status being written, not the stored one: a resume in this very plan restarts the clock.
    let start = draft.status.start_time.as_ref().map(|time| time.0);
    let (Some(seconds), Some(start)) = (job.policy.deadline, start) else {
        return Flow::Go;
    };
    let Some(due) = add_seconds(start, seconds) else {
        return Flow::Go;
    };
    if due > draft.now() {
        draft.wake_at(due);
        return Flow::Go;
    }
    let message = format!("Job {} has failed because it was active longer than specified deadline", job.name);
    ending::fail(draft, &message);
    Flow::Done
}
