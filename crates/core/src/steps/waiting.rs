//! Why replicas do not start: said in the status, for as long as it is so.

use jiff::Timestamp;
use trainyard_api::ConditionStatus;
use trainyard_api::reasons::suffix;

use crate::action::Resource;
use crate::conditions::{self, Change, types};
use crate::job::add_seconds;
use crate::plan::{Draft, Flow, Hold};
use crate::pod::{Phase, PodView, WaitsOn};
use crate::seen::WriteFailure;
use crate::steps::start;
use crate::steps::tally::is_current;

/// Longer messages are cut: a status is no place for a scheduler's whole account.
const LONGEST: usize = 600;

/// Starting takes a moment; what is over by then is not worth a word.
const MOMENT: i64 = 2;

/// What keeps replicas from starting.
pub(crate) struct Why {
    pub(crate) suffix: &'static str,
    pub(crate) message: String,
    /// Since when.
    since: Option<Timestamp>,
}

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let why = why(draft);
    let due = why.as_ref().and_then(|why| add_seconds(why.since?, MOMENT)).filter(|due| *due > draft.now());
    if let Some(due) = due {
        draft.wake_at(due);
        return Flow::Go;
    }
    match why {
        Some(why) => {
            let reason = draft.job().kind.reason(why.suffix);
            let message = cut(&why.message);
            let change =
                Change { type_: types::WAITING, status: ConditionStatus::TRUE, reason: &reason, message };
            conditions::explain(&mut draft.status, change, draft.seen.now);
        }
        None => {
            conditions::remove(&mut draft.status, types::WAITING);
        }
    }
    Flow::Go
}

/// The first of: a child that was refused, something that all replicas wait for, pods that do not start.
pub(crate) fn why(draft: &Draft<'_>) -> Option<Why> {
    let refused = draft.seen.failures.iter().find(|failure| stands_in_the_way(failure));
    if let Some(WriteFailure { what, name, message, .. }) = refused {
        let quota = message.contains("exceeded quota");
        let suffix = if quota { suffix::QUOTA } else { suffix::REFUSED };
        let message = format!("{} {name} cannot be created: {message}", what.kind);
        return Some(Why { suffix, message, since: None });
    }
    if let Some(Hold { suffix, text }) = &draft.hold {
        let message = format!("no pod is created: {text}");
        return Some(Why { suffix, message, since: start::begin(draft) });
    }
    pods(draft)
}

/// An account that somebody else made does; see the step for extras.
fn stands_in_the_way(failure: &WriteFailure) -> bool {
    !(failure.what == &Resource::SERVICE_ACCOUNT && failure.code == 409)
}

fn pods(draft: &Draft<'_>) -> Option<Why> {
    let job = draft.job();
    let current = job.slots().filter_map(|slot| {
        let pod = draft.slots.pod(slot)?;
        is_current(pod, &draft.record, &slot.role.name, slot.index).then_some(pod)
    });
    let waiting: Vec<&PodView> =
        current.filter(|pod| pod.phase == Phase::Pending && pod.waits.is_some()).collect();
    let first = waiting.iter().min_by_key(|pod| pod.waits.as_ref().map(|waits| waits.on))?;
    let waits = first.waits.as_ref()?;
    let suffix = match waits.on {
        WaitsOn::Node => suffix::UNSCHEDULABLE,
        WaitsOn::Image => suffix::IMAGE,
        WaitsOn::Config => suffix::CONFIG,
    };
    let same = waiting.iter().filter(|pod| pod.waits.as_ref().is_some_and(|w| w.on == waits.on)).count();
    let others = if same > 1 { format!(" (and {} more)", same - 1) } else { String::new() };
    let message = format!("{}{others} does not start: {}", first.name, waits.message);
    Some(Why { suffix, message, since: Some(waits.since) })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
