//! Jobs that are not ours to touch: those another controller runs, and those being deleted.

use crate::plan::{Draft, Flow};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let job = draft.job();
    if job.policy.managed_elsewhere {
        draft.say("ownership", "runPolicy.managedBy names another controller: nothing is done here");
        return Flow::Done;
    }
    if job.deleting {
        draft.say("ownership", "the job is being deleted: its children go with it");
        return Flow::Done;
    }
    Flow::Go
}
