//! Why replicas do not start: said in the status, for as long as it is so.

use jiff::Timestamp;
use trainyard_api::reasons::suffix;
use trainyard_api::{ConditionStatus, labels};

use crate::action::Resource;
use crate::conditions::{self, Change, types};
use crate::job::add_seconds;
use crate::plan::{Draft, Flow, Hold};
use crate::pod::{ContainerState, ContainerView, Phase, PodView, WaitsOn};
use crate::seen::WriteFailure;
use crate::steps::tally::is_current;
use crate::steps::{start, unwritten};

/// Longer messages are cut: a status is no place for a scheduler's whole account.
const LONGEST: usize = 600;

/// A replica that runs this long crashes no more. Until then the status says what it said: a write for every crash would be
/// one more load on a cluster that has enough of them.
const STEADY: i64 = 120;

/// Starting takes a moment; what is over by then is not worth a word.
const MOMENT: i64 = 2;

/// What keeps replicas from starting.
pub(crate) struct Why {
    pub(crate) suffix: &'static str,
    pub(crate) message: String,
    /// Since when.
    since: Option<Timestamp>,
    /// When to look whether it is still so, although nothing happens then.
    until: Option<Timestamp>,
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
            if let Some(until) = why.until {
                draft.wake_at(until);
            }
            let reason = draft.job().kind.reason(why.suffix);
            let message = cut(&why.message);
            let change =
                Change { type_: types::WAITING, status: ConditionStatus::TRUE, reason: &reason, message };
            conditions::explain(&mut draft.status, change, draft.seen.now);
        }
        None if is_tried_again(draft) => {}
        None => {
            conditions::remove(&mut draft.status, types::WAITING);
        }
    }
    Flow::Go
}

/// What was refused is tried by this very plan: an operator that has just started does not know of the refusal. What is
/// said of it stays until the answer is known.
fn is_tried_again(draft: &Draft<'_>) -> bool {
    let said = draft.status.conditions.iter().find(|condition| condition.type_ == types::WAITING);
    let reason = said.and_then(|condition| condition.reason.as_deref());
    let is = |suffix: &str| reason == Some(draft.job().kind.reason(suffix).as_str());
    let writes = draft.record != draft.job().record;
    (draft.creates() && (is(suffix::QUOTA) || is(suffix::REFUSED))) || (writes && is(suffix::RECORD))
}

/// The first of: a record or a child that was refused, something that all replicas wait for, pods that do not start.
pub(crate) fn why(draft: &Draft<'_>) -> Option<Why> {
    if let Some((WriteFailure { message, .. }, _)) = unwritten::refusal(draft) {
        let message =
            format!("no replica is replaced: annotation {} cannot be written: {message}", labels::RECORD);
        return Some(Why { suffix: suffix::RECORD, message, since: None, until: None });
    }
    let refused = draft.seen.failures.iter().find(|failure| stands_in_the_way(failure));
    if let Some(WriteFailure { what, name, message, .. }) = refused {
        let quota = message.contains("exceeded quota");
        let suffix = if quota { suffix::QUOTA } else { suffix::REFUSED };
        let message = format!("{} {name} cannot be created: {message}", what.kind);
        return Some(Why { suffix, message, since: None, until: None });
    }
    if let Some(Hold { suffix, text }) = draft.hold.as_ref().filter(|_| any_is_missing(draft)) {
        let message = format!("no pod is created: {text}");
        return Some(Why { suffix, message, since: start::begin(draft), until: None });
    }
    crashes(draft).or_else(|| pods(draft))
}

/// A container that ends again and again, and until when it may still be one although it runs at the moment.
struct Crash<'a> {
    pod: &'a PodView,
    container: &'a ContainerView,
    until: Option<Timestamp>,
}

/// Replicas that the kubelet starts again and again: each of them runs for a moment only, and the job seems to run.
fn crashes(draft: &Draft<'_>) -> Option<Why> {
    let reason = draft.job().kind.reason(suffix::CRASHES);
    let said = draft.status.conditions.iter().any(|condition| {
        condition.type_ == types::WAITING && condition.reason.as_deref() == Some(reason.as_str())
    });
    let crash = |pod: &'_ PodView| -> Option<usize> {
        pod.containers.iter().position(|container| is_crashing(container, said, draft.now()).is_some())
    };
    let all: Vec<Crash<'_>> = current_pods(draft)
        .filter(|pod| pod.deleting.is_none() && !pod.phase.is_over())
        .filter_map(|pod| {
            let container = crash(pod).and_then(|at| pod.containers.get(at))?;
            Some(Crash { pod, container, until: is_crashing(container, said, draft.now())? })
        })
        .collect();
    let Crash { pod, container, .. } = all.first()?;
    let (exit, reason) = container.last_end()?;
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let sort = if container.init { "init container" } else { "container" };
    let message = format!(
        "{}{} crashes again and again: {sort} {} ended with exit code {exit}{reason}",
        pod.name,
        and_more(all.len()),
        container.name
    );
    let until = all.iter().filter_map(|crash| crash.until).min();
    Some(Why { suffix: suffix::CRASHES, message, since: None, until })
}

/// Whether a container crashes; and if it runs at the moment, when it will have run long enough not to.
fn is_crashing(container: &ContainerView, said: bool, now: Timestamp) -> Option<Option<Timestamp>> {
    match &container.state {
        ContainerState::Waiting { reason } => {
            (reason.as_deref() == Some("CrashLoopBackOff") && container.last.is_some()).then_some(None)
        }
        ContainerState::Terminated { .. } => (said && container.restarts > 0).then_some(None),
        ContainerState::Running => {
            let steady = add_seconds(container.since.filter(|_| said && container.last.is_some())?, STEADY);
            steady.filter(|steady| *steady > now).map(Some)
        }
    }
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

/// The pods that replicas are supposed to have now.
fn current_pods<'a>(draft: &'a Draft<'_>) -> impl Iterator<Item = &'a PodView> {
    draft.job().slots().filter_map(|slot| {
        let pod = draft.slots.pod(slot)?;
        is_current(pod, &draft.record, &slot.role.name, slot.index).then_some(pod)
    })
}

/// An account that somebody else made does; see the step for extras.
fn stands_in_the_way(failure: &WriteFailure) -> bool {
    let shared = failure.what == &Resource::SERVICE_ACCOUNT && failure.code == 409;
    !failure.what.is_of_the_job() && failure.is_lasting() && !shared
}

/// True when a replica has no pod and needs one: whoever holds creations back holds back nothing otherwise.
fn any_is_missing(draft: &Draft<'_>) -> bool {
    draft
        .job()
        .slots()
        .any(|slot| draft.slots.pod(slot).is_none() && !draft.record.is_finished(&slot.role.name, slot.index))
}

fn pods(draft: &Draft<'_>) -> Option<Why> {
    let waiting: Vec<&PodView> =
        current_pods(draft).filter(|pod| pod.phase == Phase::Pending && pod.waits.is_some()).collect();
    let first = waiting.iter().min_by_key(|pod| pod.waits.as_ref().map(|waits| waits.on))?;
    let waits = first.waits.as_ref()?;
    let suffix = match waits.on {
        WaitsOn::Node => suffix::UNSCHEDULABLE,
        WaitsOn::Image => suffix::IMAGE,
        WaitsOn::Config => suffix::CONFIG,
    };
    let same = waiting.iter().filter(|pod| pod.waits.as_ref().is_some_and(|w| w.on == waits.on)).count();
    let message = format!("{}{} does not start: {}", first.name, and_more(same), waits.message);
    Some(Why { suffix, message, since: Some(waits.since), until: None })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
