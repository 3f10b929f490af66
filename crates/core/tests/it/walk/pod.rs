//! A pod with everything left out that no decision rests on, and every way in which it can go on.

use jiff::Timestamp;
use trainyard_core::{ContainerState, ContainerView, JobView, Phase, PodView, Slot};

use super::state::Detail;

/// When everything in the walk happens. What is waited for is over at [`LATE`].
pub(super) const EARLY: i64 = 1_000_000;
/// Later than anything anybody waits for.
pub(super) const LATE: i64 = 2_000_000;

/// A pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pod {
    pub(super) life: Life,
    pub(super) age: Age,
    /// Whether it was asked to end, and when.
    pub(super) asked: Asked,
    /// How often the kubelet started it again, as far as that makes a difference.
    pub(super) restarts: u8,
}

/// Where it is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Life {
    Pending,
    Running,
    /// Its container has ended, and the kubelet is about to start it again.
    Down,
    /// Its node does not answer.
    Unknown,
    Succeeded,
    Failed(u8),
    Evicted,
    /// Its node would not have it: it never ran.
    Refused,
}

/// Whether it is the one that its replica is supposed to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Age {
    /// It is.
    Current,
    /// A successor is to take its place.
    Replaced,
    /// The whole job has started anew.
    Past,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Asked {
    Never,
    WhileItLived,
    AfterItsEnd,
    /// Kubernetes itself wants it to end.
    ByDisruption,
}

/// What a program may end with: well, for good, and so that another try may help.
const EXITS: [u8; 3] = [0, 1, 137];

impl Pod {
    /// A pod that was just created.
    pub(super) const NEW: Self =
        Self { life: Life::Pending, age: Age::Current, asked: Asked::Never, restarts: 0 };

    fn is_over(self) -> bool {
        matches!(self.life, Life::Succeeded | Life::Failed(_) | Life::Evicted | Life::Refused)
    }

    /// Somebody asks it to end.
    pub(super) fn ask(&mut self) {
        if self.asked == Asked::Never {
            let after = self.is_over() || self.life == Life::Down;
            self.asked = if after { Asked::AfterItsEnd } else { Asked::WhileItLived };
        }
    }

    /// Everything that can happen to it next; `None` is its end. `policy` is the kubelet's.
    pub(super) fn next(self, policy: &str, detail: Detail) -> Vec<Option<Self>> {
        let live = |life: Life| Some(Self { life, ..self });
        let mut next = match self.life {
            Life::Pending if detail.trouble => vec![live(Life::Running), live(Life::Refused)],
            Life::Pending => vec![live(Life::Running)],
            Life::Running => {
                let ends = EXITS.iter().map(|code| live(self.end(policy, *code)));
                let lost = detail.trouble.then(|| live(Life::Unknown));
                ends.chain([live(Life::Evicted)]).chain(lost).collect()
            }
            Life::Down if self.asked == Asked::Never => {
                let restarts = (self.restarts + 1).min(detail.most_restarts());
                vec![Some(Self { life: Life::Running, restarts, ..self })]
            }
            Life::Unknown => vec![live(Life::Running)],
            Life::Down | Life::Succeeded | Life::Failed(_) | Life::Evicted | Life::Refused => Vec::new(),
        };
        if self.asked == Asked::Never {
            let mut asked = self;
            asked.ask();
            next.push(Some(asked));
            if !self.is_over() && detail.trouble {
                next.push(Some(Self { asked: Asked::ByDisruption, ..asked }));
            }
        } else {
            next.push(None);
        }
        next
    }

    fn end(self, policy: &str, code: u8) -> Life {
        let again =
            self.asked == Asked::Never && (policy == "Always" || (policy == "OnFailure" && code != 0));
        match code {
            _ if again => Life::Down,
            0 => Life::Succeeded,
            _ => Life::Failed(code),
        }
    }

    /// Of a pod of the past it matters whether it runs, how it ended, and whether it goes.
    pub(super) fn settle(&mut self) {
        if self.age == Age::Current {
            return;
        }
        self.restarts = 0;
        self.life = match self.life {
            Life::Pending | Life::Unknown | Life::Succeeded => Life::Pending,
            Life::Running | Life::Down => Life::Running,
            Life::Failed(_) => Life::Failed(1),
            Life::Evicted | Life::Refused => Life::Evicted,
        };
        if self.asked != Asked::Never {
            self.asked = Asked::WhileItLived;
        }
    }

    /// What the engine is shown of it. The job is in attempt 1, and each of its replicas was replaced once.
    pub(super) fn view(self, job: &JobView, slot: Slot<'_>, container: &str) -> PodView {
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let ended = |exit: u8| ContainerState::Terminated {
            exit: exit.into(),
            reason: None,
            started: at(EARLY),
            finished: at(EARLY),
        };
        let (phase, state) = match self.life {
            Life::Pending => (Phase::Pending, ContainerState::Waiting { reason: None }),
            Life::Running => (Phase::Running, ContainerState::Running),
            Life::Down => (Phase::Running, ended(1)),
            Life::Unknown => (Phase::Unknown, ContainerState::Running),
            Life::Succeeded => (Phase::Succeeded, ended(0)),
            Life::Failed(code) => (Phase::Failed, ended(code)),
            Life::Evicted => (Phase::Failed, ended(1)),
            Life::Refused => (Phase::Failed, ContainerState::Waiting { reason: None }),
        };
        let name = slot.child_name(job);
        PodView {
            uid: name.as_str().into(),
            name: name.into(),
            role: slot.role.label.as_str().into(),
            index: Some(slot.index),
            labelled: true,
            attempt: u32::from(self.age != Age::Past),
            incarnation: u32::from(self.age == Age::Current),
            phase,
            created: at(EARLY),
            deleting: match self.asked {
                Asked::Never => None,
                Asked::WhileItLived | Asked::ByDisruption => at(EARLY),
                Asked::AfterItsEnd => at(EARLY + 1),
            },
            reason: match self.life {
                Life::Evicted => Some("Evicted".into()),
                Life::Refused => Some("OutOfcpu".into()),
                _ => None,
            },
            disruption: (self.asked == Asked::ByDisruption).then(|| "PreemptionByScheduler".into()),
            containers: Box::new([ContainerView {
                name: container.into(),
                state,
                restarts: self.restarts.into(),
                ..ContainerView::default()
            }]),
            ..PodView::default()
        }
    }
}
