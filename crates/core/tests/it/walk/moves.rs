//! What may happen next, in words.

use std::fmt;

use super::job::Job;
use super::pod::{Asked, Clock, Life, Pod};
use super::state::{Refuses, State};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// The operator looks and does all that it planned.
    Look(Time),
    /// The operator looks and writes; its other requests are on their way.
    LookSlowly(Time),
    /// The operator dies after it has written the record.
    DieAfterRecord(Time),
    /// The operator dies after it has written the status.
    DieAfterStatus(Time),
    /// A request of the operator's arrives.
    Arrive(usize),
    /// The operator dies, and requests that have not arrived never do.
    Crash,
    /// Something happens to the pod of a replica.
    Pod(usize, Option<Pod>),
    /// The operator's cache of pods stands still.
    Lag,
    /// It has the news of one replica, whatever happened in between.
    CatchUp(usize),
    Suspend,
    Break,
    Scale,
    LoseRecord,
    Copy,
    /// The server refuses to store a part of the job, or stores everything again.
    Refuse,
}

/// When the operator looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// At once.
    Now,
    /// When everything that it waits for is over.
    Late,
}

/// A move and what it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: Move,
    /// It is one of the things that a search allows only so many of.
    pub(super) fault: bool,
    pub(super) state: State,
}

/// A step as a line of a trace.
pub(super) fn line(job: &Job, step: &Step) -> String {
    let name = |place: usize| job.view.slots().nth(place).map(|slot| slot.child_name(&job.view)).unwrap();
    let state = &step.state;
    let text = match step.what {
        Move::Look(time) => format!("{time} the operator looks, and does what it planned"),
        Move::LookSlowly(time) => format!("{time} the operator looks, and its requests are slow"),
        Move::DieAfterRecord(time) => format!("{time} the operator looks, writes the record, and dies"),
        Move::DieAfterStatus(time) => format!("{time} the operator looks, writes the status, and dies"),
        Move::Arrive(place) => format!("the request about {} arrives", name(place)),
        Move::Crash => "the operator dies; what has not arrived never does".into(),
        Move::Pod(place, Some(pod)) => format!("{} {}", name(place), words(pod)),
        Move::Pod(place, None) => format!("{} is gone", name(place)),
        Move::Lag => "the operator's cache of pods stands still".into(),
        Move::CatchUp(place) => format!("the operator has news of {}", name(place)),
        Move::Suspend => format!("the user sets suspend to {}", state.suspend),
        Move::Break if state.broken => "the user makes the spec invalid".into(),
        Move::Break => "the user corrects the spec".into(),
        Move::Scale if state.scaled => "the user asks for a worker less".into(),
        Move::Scale => "the user asks for all workers again".into(),
        Move::LoseRecord => "the user replaces the job and forgets its annotations".into(),
        Move::Refuse if state.refuses == Refuses::Nothing => "the server stores everything again".into(),
        Move::Refuse => format!("the server refuses to store the {:?}", state.refuses),
        Move::Copy => "a new job is made from the manifest of this one, annotations and all".into(),
    };
    let pods = state.replicas.iter().filter_map(|replica| replica.pod).map(words).collect::<Vec<_>>();
    let (conditions, restarts) = (job.shape(state.conditions), state.restarts);
    format!(
        "{text}\n        [{conditions}] restarts {restarts}, record {:?}; {}",
        state.record,
        pods.join("; ")
    )
}

fn words(pod: Pod) -> String {
    let life = match pod.life {
        Life::Pending => "is pending".into(),
        Life::Running => "runs".into(),
        Life::Down => "is down, to be restarted in place".into(),
        Life::Unknown => "is on a node that does not answer".into(),
        Life::Succeeded => "ended with 0".into(),
        Life::Failed(code) => format!("failed with {code}"),
        Life::Evicted => "was evicted".into(),
        Life::Refused => "was refused by its node".into(),
    };
    let asked = match pod.asked {
        Asked::Never => "",
        Asked::WhileItLived => ", asked to end while it lived",
        Asked::AfterItsEnd => ", asked to end after it had ended",
        Asked::ByDisruption => ", asked to end by Kubernetes while it lived",
        Asked::DrainedAfterItsEnd => ", drained after it had ended",
    };
    let clock = match pod.clock {
        Clock::Right => "",
        Clock::Ahead => ", on a node whose clock is ahead",
        Clock::Behind => ", on a node whose clock is behind",
    };
    format!("{life}{asked}{clock} ({:?})", pod.age)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now => "at once",
            Self::Late => "much later",
        })
    }
}
