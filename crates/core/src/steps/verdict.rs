//! Has the job done what it was for?
//!
//! Success comes before every limit: a job that finished while nobody looked has finished, whatever the clock says
//! now.

use crate::framework::{Verdict, decider};
use crate::plan::{Draft, Flow};
use crate::steps::tally::is_current;
use crate::steps::{ending, exits};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    if draft.framework.verdict(draft.job(), &draft.tally) == Verdict::Succeeded {
        let decider = decider(draft.framework.facts(), draft.job());
        let decided = draft.job().slots().filter(|slot| Some(slot.role.name.as_str()) == decider);
        let pods: Vec<_> = decided.filter_map(|slot| draft.slots.pod(slot)).collect();
        exits::tell(draft, &pods);
        ending::succeed(draft);
        return Flow::Done;
    }
    remember_finished(draft);
    Flow::Go
}

/// A replica that succeeded never runs again, even if its pod is deleted: that must be known before it is.
fn remember_finished(draft: &mut Draft<'_>) {
    let mut finished = Vec::new();
    for slot in draft.job().slots() {
        let role = &slot.role.name;
        let Some(pod) = draft.slots.pod(slot) else {
            continue;
        };
        if draft.is_done(slot, pod)
            && is_current(pod, &draft.record, role, slot.index)
            && !draft.record.is_finished(role, slot.index)
        {
            draft.record.finish(role, slot.index);
            draft.say("verdict", format!("{} has succeeded", pod.name));
            finished.push(pod);
        }
    }
    exits::tell(draft, &finished);
}
