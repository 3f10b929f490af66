//! A pod with everything left out that no decision rests on, and every way in which it can go on.

use jiff::Timestamp;
use trainyard_core::{ContainerState, ContainerView, JobView, Phase, PodView, Slot};

use super::job::Detail;

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
    /// Its job has ended: it was given a deadline that has passed.
    pub(super) stopped: bool,
    /// How much of the job's budget was used when it was created.
    pub(super) used: u8,
    /// The clock of its node.
    pub(super) clock: Clock,
    /// What its kubelet does when its program ends.
    pub(super) again: Again,
}

/// `restartPolicy` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Again {
    Never,
    OnFailure,
    Always,
}

impl Again {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "Always" => Self::Always,
            "OnFailure" => Self::OnFailure,
            _ => Self::Never,
        }
    }
}

/// How the clock of a node differs from that of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Clock {
    Right,
    Ahead,
    Behind,
}

impl Clock {
    /// What it shows at `second`.
    fn shows(self, second: i64) -> i64 {
        match self {
            Self::Right => second,
            Self::Ahead => second + 3600,
            Self::Behind => second - 3600,
        }
    }
}

/// Something that may happen to a pod; `None` is its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    pub(super) pod: Option<Pod>,
    /// Whether the world misbehaves.
    pub(super) fault: bool,
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
    /// It was drained from its node after it had ended: eviction marks such pods, too.
    DrainedAfterItsEnd,
}

/// What a program may end with: well, for good, and so that another try may help.
const EXITS: [u8; 3] = [0, 1, 137];

impl Pod {
    /// A pod that was just created.
    pub(super) const NEW: Self = Self {
        life: Life::Pending,
        age: Age::Current,
        asked: Asked::Never,
        restarts: 0,
        stopped: false,
        used: 0,
        clock: Clock::Right,
        again: Again::Never,
    };

    /// True when it will never run again.
    pub(super) fn is_over(self) -> bool {
        matches!(self.life, Life::Succeeded | Life::Failed(_) | Life::Evicted | Life::Refused)
    }

    /// Somebody asks it to end.
    pub(super) fn ask(&mut self) {
        if self.asked == Asked::Never {
            let after = self.is_over() || self.life == Life::Down;
            self.asked = if after { Asked::AfterItsEnd } else { Asked::WhileItLived };
        }
    }

    /// True when its program failed, and nobody had asked it to end.
    pub(super) fn failed_by_itself(self) -> bool {
        let asked_before = matches!(self.asked, Asked::WhileItLived | Asked::ByDisruption);
        matches!(self.life, Life::Failed(_)) && !asked_before
    }

    /// True when its program has done its work, and nobody had asked it to end.
    pub(super) fn worked(self) -> bool {
        let asked_before = matches!(self.asked, Asked::WhileItLived | Asked::ByDisruption);
        self.life == Life::Succeeded && !asked_before
    }

    /// Everything that can happen to it next.
    pub(super) fn next(self, detail: Detail) -> Vec<Chance> {
        let trouble = detail.trouble || detail.search;
        let live = |life: Life| Chance { pod: Some(Self { life, ..self }), fault: false };
        let fault = |pod: Self| Chance { pod: Some(pod), fault: true };
        let bad = |life: Life| fault(Self { life, ..self });
        let mut next = match self.life {
            Life::Pending | Life::Running | Life::Down if self.stopped => vec![live(Life::Failed(1))],
            Life::Pending => {
                let skewed =
                    [Clock::Ahead, Clock::Behind].map(|clock| Self { clock, life: Life::Running, ..self });
                let skewed = skewed.into_iter().filter(|_| detail.search).map(fault);
                let refused = trouble.then(|| bad(Life::Refused));
                [live(Life::Running)].into_iter().chain(skewed).chain(refused).collect()
            }
            Life::Running => {
                let ends = EXITS.iter().map(|code| live(self.end(*code)));
                let lost = trouble.then(|| bad(Life::Unknown));
                ends.chain([bad(Life::Evicted)]).chain(lost).collect()
            }
            Life::Down if self.asked == Asked::Never => {
                let restarts = (self.restarts + 1).min(detail.most_restarts());
                vec![Chance { pod: Some(Self { life: Life::Running, restarts, ..self }), fault: false }]
            }
            Life::Unknown => vec![live(Life::Running)],
            Life::Down | Life::Succeeded | Life::Failed(_) | Life::Evicted | Life::Refused => Vec::new(),
        };
        if self.asked == Asked::Never {
            let mut asked = self;
            asked.ask();
            next.push(fault(asked));
            if !self.is_over() && trouble {
                next.push(fault(Self { asked: Asked::ByDisruption, ..asked }));
            }
            if matches!(self.life, Life::Succeeded | Life::Failed(_)) && detail.search {
                next.push(fault(Self { asked: Asked::DrainedAfterItsEnd, ..asked }));
            }
        } else {
            next.push(Chance { pod: None, fault: false });
        }
        next
    }

    /// What happens to it next if nothing goes wrong.
    pub(super) fn goes_on(self) -> Option<Self> {
        let live = |life: Life| Some(Self { life, ..self });
        match self.life {
            _ if self.asked != Asked::Never => None,
            Life::Pending | Life::Running | Life::Down if self.stopped => live(Life::Failed(1)),
            Life::Pending | Life::Down | Life::Unknown => live(Life::Running),
            Life::Running | Life::Succeeded | Life::Failed(_) | Life::Evicted | Life::Refused => Some(self),
        }
    }

    fn end(self, code: u8) -> Life {
        let again = self.again == Again::Always || (self.again == Again::OnFailure && code != 0);
        match code {
            _ if again && self.asked == Asked::Never => Life::Down,
            0 => Life::Succeeded,
            _ => Life::Failed(code),
        }
    }

    /// Of a pod of the past it matters whether it runs, how it ended, and whether it goes.
    pub(super) fn settle(&mut self, detail: Detail) {
        if self.is_over() && self.life != Life::Succeeded {
            self.clock = Clock::Right;
        }
        if self.age == Age::Current {
            return;
        }
        (self.restarts, self.clock) = (0, Clock::Right);
        if detail.search {
            // A record that is lost may make it the current one again.
            return;
        }
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

    /// Its attempt and its incarnation, where those of its job are `base`.
    pub(super) fn numbers(self, base: (u32, u32)) -> (u32, u32) {
        match self.age {
            Age::Current => base,
            Age::Replaced => (base.0, base.1.saturating_sub(1)),
            Age::Past => (base.0.saturating_sub(1), base.1.saturating_sub(1)),
        }
    }

    /// What the engine is shown of it.
    pub(super) fn view(self, job: &JobView, slot: Slot<'_>, container: &str, base: (u32, u32)) -> PodView {
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let ended = |exit: u8| ContainerState::Terminated {
            exit: exit.into(),
            reason: None,
            started: at(self.clock.shows(EARLY)),
            finished: at(self.clock.shows(EARLY)),
        };
        let (attempt, incarnation) = self.numbers(base);
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
            attempt,
            incarnation,
            used: self.used.into(),
            active_deadline: self.stopped.then_some(1),
            phase,
            created: at(EARLY),
            seen_over: at(EARLY).filter(|_| self.is_over()),
            deleting: match self.asked {
                Asked::Never => None,
                Asked::WhileItLived | Asked::ByDisruption => at(EARLY),
                Asked::AfterItsEnd | Asked::DrainedAfterItsEnd => at(EARLY + 1),
            },
            reason: match self.life {
                Life::Evicted => Some("Evicted".into()),
                Life::Refused => Some("OutOfcpu".into()),
                _ => None,
            },
            disruption: match self.asked {
                Asked::Never | Asked::WhileItLived | Asked::AfterItsEnd => None,
                Asked::ByDisruption => Some("PreemptionByScheduler".into()),
                Asked::DrainedAfterItsEnd => Some("EvictionByEvictionAPI".into()),
            },
            disrupted: match self.asked {
                Asked::Never | Asked::WhileItLived | Asked::AfterItsEnd => None,
                Asked::ByDisruption => at(EARLY),
                Asked::DrainedAfterItsEnd => at(EARLY + 1),
            },
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
