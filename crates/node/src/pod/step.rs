//! What happens to a pod next, decided from one look at it. No IO, no clock: a control plane that died in the middle
//! looks again and decides the same.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, PodStatus};

use super::sight::{Outlook, Part, Sight, containers, grace};
use super::status;

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Runs to begin.
    pub(crate) start: Vec<Start>,
    /// Containers to end.
    pub(crate) stop: Vec<Stop>,
    /// What the pod's status is to be.
    pub(crate) status: PodStatus,
    /// Look again at this time even if nothing happens.
    pub(crate) wake: Option<Timestamp>,
    /// Nothing of the pod runs and it was asked to go: remove the object.
    pub(crate) remove: bool,
}

/// A run to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) container: String,
    pub(crate) number: u32,
    pub(crate) level: u32,
}

/// A container to end, by this time at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) container: String,
    pub(crate) by: Timestamp,
}

/// Why a pod comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Somebody deleted it.
    Deleted,
    /// It was active for longer than it may.
    Deadline,
    /// It cannot be started at all.
    Vetoed,
    /// Its containers have ended for good, or one that has to come first has failed for good.
    Finished,
    /// It was over before.
    Over,
}

/// Sidecars that outlast a pod's grace period get at least this long to end.
const LEAST_GRACE: SignedDuration = SignedDuration::from_secs(2);

/// Decides.
pub(crate) fn step(sight: &Sight<'_>) -> Step {
    let mut plan = Planned::default();
    let ending = ending(sight);
    match ending {
        Some(ending) => end(sight, ending, &mut plan),
        None => go_on(sight, &mut plan),
    }
    let up = containers(sight.pod).any(|(_, container)| sight.is_up(container));
    let ended = ending.filter(|_| !up && plan.start.is_empty());
    if ending.is_none() {
        plan.wake_at(deadline(sight));
    }
    Step {
        status: status::of(sight, ending, ended),
        remove: ended.is_some() && sight.pod.metadata.deletion_timestamp.is_some(),
        start: plan.start,
        stop: plan.stop,
        wake: plan.wake,
    }
}

#[derive(Default)]
struct Planned {
    start: Vec<Start>,
    stop: Vec<Stop>,
    wake: Option<Timestamp>,
}

impl Planned {
    fn wake_at(&mut self, at: Option<Timestamp>) {
        self.wake = [self.wake, at].into_iter().flatten().min();
    }
}

fn ending(sight: &Sight<'_>) -> Option<Ending> {
    if sight.pod.metadata.deletion_timestamp.is_some() {
        return Some(Ending::Deleted);
    }
    let phase = sight.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Some(Ending::Over);
    }
    if sight.veto.is_some() {
        return Some(Ending::Vetoed);
    }
    // A pod that finished in time while nobody looked has finished, however late it is now. One that ended after its
    // deadline did so because it was told to, whatever its exit code.
    let deadline = deadline(sight);
    match finished(sight) {
        Some(at) if deadline.is_some_and(|deadline| deadline < at) => Some(Ending::Deadline),
        Some(_) => Some(Ending::Finished),
        None => deadline.is_some_and(|deadline| deadline <= sight.now).then_some(Ending::Deadline),
    }
}

/// When all main containers had ended for good, or an init container had and badly.
fn finished(sight: &Sight<'_>) -> Option<Timestamp> {
    let over = |part, container| match sight.outlook(part, container) {
        Outlook::Over { exit, .. } => Some(exit),
        _ => None,
    };
    let mains = containers(sight.pod).filter(|(part, _)| *part == Part::Main);
    let ends: Option<Vec<_>> = mains.map(|(part, container)| over(part, container)).collect();
    let all = ends.and_then(|ends| ends.iter().map(|exit| exit.finished_at).max());
    all.or_else(|| {
        let inits = containers(sight.pod).filter(|(part, _)| *part == Part::Init);
        let mut ends = inits.filter_map(|(part, container)| over(part, container));
        ends.find(|exit| exit.code != 0).map(|exit| exit.finished_at)
    })
}

/// When the pod has been active for as long as it may.
fn deadline(sight: &Sight<'_>) -> Option<Timestamp> {
    let seconds = sight.pod.spec.as_ref()?.active_deadline_seconds?;
    let begun = sight.pod.status.as_ref()?.start_time.as_ref()?.0;
    begun.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Ends what runs: main and init containers first, then sidecars, the last started first.
fn end(sight: &Sight<'_>, ending: Ending, plan: &mut Planned) {
    let by = end_by(sight, ending);
    let is_up = |container: &Container| sight.is_up(container);
    let mut first = containers(sight.pod).filter(|(part, c)| *part != Part::Sidecar && is_up(c)).peekable();
    if first.peek().is_some() {
        plan.stop.extend(first.map(|(_, c)| Stop { container: c.name.clone(), by }));
        return;
    }
    let last = containers(sight.pod).filter(|(part, c)| *part == Part::Sidecar && is_up(c)).last();
    let least = sight.now.checked_add(LEAST_GRACE).unwrap_or(by);
    plan.stop.extend(last.map(|(_, c)| Stop { container: c.name.clone(), by: by.max(least) }));
}

fn end_by(sight: &Sight<'_>, ending: Ending) -> Timestamp {
    match ending {
        // The API server has added the grace period already.
        Ending::Deleted => sight.pod.metadata.deletion_timestamp.as_ref().map_or(sight.now, |time| time.0),
        Ending::Over => sight.now,
        // From now: a deadline that is set on a pod that has run for long lies in the past, and it still has its grace.
        Ending::Deadline | Ending::Vetoed | Ending::Finished => after_grace(sight, sight.now),
    }
}

fn after_grace(sight: &Sight<'_>, from: Timestamp) -> Timestamp {
    from.checked_add(grace(sight.pod)).unwrap_or(Timestamp::MAX)
}

/// Starts what is due: init containers one after the other, then the main ones together.
fn go_on(sight: &Sight<'_>, plan: &mut Planned) {
    let begun = containers(sight.pod).any(|(part, c)| part == Part::Main && sight.was_started(c));
    let mut open = true;
    for (part, container) in containers(sight.pod) {
        if !open && !begun {
            return;
        }
        let outlook = sight.outlook(part, container);
        open &= passed(part, &outlook);
        match outlook {
            // Once the main containers run, an init container whose traces are gone is not run again.
            Outlook::New if part == Part::Init && begun => {}
            Outlook::New => plan.start.push(first_run(container)),
            Outlook::Again { run, at, level, .. } if at <= sight.now => plan.start.push(Start {
                container: container.name.clone(),
                number: run.number.saturating_add(1),
                level,
            }),
            Outlook::Again { at, .. } => plan.wake_at(Some(at)),
            Outlook::Up(run) if run.health.dead => {
                let by = after_grace(sight, sight.now);
                plan.stop.push(Stop { container: container.name.clone(), by });
            }
            Outlook::Up(_) | Outlook::Over { .. } => {}
        }
    }
}

fn first_run(container: &Container) -> Start {
    Start { container: container.name.clone(), number: 0, level: 0 }
}

/// Whether what comes after this container may start.
fn passed(part: Part, outlook: &Outlook<'_>) -> bool {
    match (part, outlook) {
        (Part::Main, _) => true,
        (Part::Init, Outlook::Over { exit, .. }) => exit.code == 0,
        (Part::Sidecar, Outlook::Up(run)) => run.health.started,
        _ => false,
    }
}
