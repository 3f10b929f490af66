//! `trainyard.dev/start-deadline-seconds`: a job whose replicas do not all start in time gives its place up.

use jiff::Timestamp;

use crate::conditions::types;
use crate::job::add_seconds;
use crate::plan::{Draft, Flow};
use crate::pod::Phase;
use crate::record::Sweep;
use crate::steps::{ending, waiting};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let job = draft.job();
    let Some(seconds) = job.start_deadline().filter(|_| !draft.record.begun) else {
        return Flow::Go;
    };
    if all_started(draft) {
        draft.record.begun = true;
        return Flow::Go;
    }
    let Some(due) = begin(draft).and_then(|start| add_seconds(start, seconds)) else {
        return Flow::Go;
    };
    if due > draft.now() {
        draft.wake_at(due);
        return Flow::Go;
    }
    let said = draft.status.conditions.iter().find(|condition| condition.type_ == types::WAITING);
    let said = said.and_then(|condition| condition.message.clone());
    let why = waiting::why(draft).map(|why| why.message).or(said);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let message =
        format!("Job {} has failed because its replicas did not all start within {seconds} s{why}", job.name);
    // Those that did start hold places that others could use.
    draft.record.sweep = Sweep::Unended;
    ending::fail(draft, &message);
    Flow::Done
}

/// When the job began to want pods: also while it waits in a queue and has not started.
pub(crate) fn begin(draft: &Draft<'_>) -> Option<Timestamp> {
    let since = |type_: &str| {
        let condition = draft.status.conditions.iter().find(|condition| condition.type_ == type_)?;
        condition.last_transition_time.as_ref()
    };
    // A job that was suspended and is not any more was resumed.
    let start = draft.status.start_time.as_ref();
    start.or_else(|| since(types::SUSPENDED)).or_else(|| since(types::CREATED)).map(|time| time.0)
}

fn all_started(draft: &Draft<'_>) -> bool {
    draft.job().slots().all(|slot| {
        let pod = draft.slots.pod(slot);
        draft.record.is_finished(&slot.role.name, slot.index)
            || pod.is_some_and(|pod| !matches!(pod.phase, Phase::Pending | Phase::Unknown))
    })
}
