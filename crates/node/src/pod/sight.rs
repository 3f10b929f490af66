//! Everything the next step of a pod depends on, as one value.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::runtime::{Exit, Instance};

/// One look at a pod: what it should be, and what of it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    /// The object.
    pub(crate) pod: &'a Pod,
    /// The newest run of each container that was ever started, by container name.
    pub(crate) runs: &'a BTreeMap<String, Run>,
    /// Containers that could not be started, and why. They are tried again.
    pub(crate) refusals: &'a BTreeMap<String, Refusal>,
    /// Why the pod cannot be started at all, found before anything was: a port that somebody else uses.
    pub(crate) veto: Option<&'a Refusal>,
    /// How often and how late a container that ended is started again.
    pub(crate) back_off: BackOff,
    /// Now.
    pub(crate) now: Timestamp,
}

/// The newest run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// 0 for the first; also the container's restart count.
    pub(crate) number: u32,
    /// How many quick ends in a row there were before this run.
    pub(crate) level: u32,
    /// What became of it.
    pub(crate) instance: Instance,
    /// How the run before it ended.
    pub(crate) previous: Option<Exit>,
    /// What the probes say about it.
    pub(crate) health: Health,
}

/// What probes say about a running container. Without probes it is started, alive and ready as soon as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// The startup probe has succeeded once, or there is none.
    pub(crate) started: bool,
    /// The readiness probe succeeds, or there is none.
    pub(crate) ready: bool,
    /// The liveness or startup probe gave up: the container has to end.
    pub(crate) dead: bool,
}

/// Why something was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// One word, for machines.
    pub(crate) reason: String,
    /// A sentence, for people.
    pub(crate) message: String,
}

/// Delays between runs of a container, as a kubelet has them: the first restart is immediate, then they double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Before the second restart.
    pub first: SignedDuration,
    /// Never longer.
    pub longest: SignedDuration,
    /// A run that lasted this long starts the count anew.
    pub forget_after: SignedDuration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: SignedDuration::from_secs(10),
            longest: SignedDuration::from_secs(300),
            forget_after: SignedDuration::from_mins(10),
        }
    }
}

impl BackOff {
    /// The level of the run after one that ended so.
    pub(crate) fn next_level(&self, level: u32, exit: &Exit) -> u32 {
        let lasted = exit.finished_at.duration_since(exit.started_at);
        if lasted >= self.forget_after { 1 } else { level.saturating_add(1) }
    }

    /// When a run of this level may begin, after one that ended so.
    pub(crate) fn due(&self, level: u32, exit: &Exit) -> Timestamp {
        let delay = match level {
            0 | 1 => SignedDuration::ZERO,
            level => {
                let factor = 1_i32.checked_shl(level.saturating_sub(2).min(30)).unwrap_or(i32::MAX);
                self.first.checked_mul(factor).unwrap_or(self.longest).min(self.longest)
            }
        };
        exit.finished_at.checked_add(delay).unwrap_or(Timestamp::MAX)
    }
}

/// How long the pod's containers have between the polite and the final signal.
pub(crate) fn grace(pod: &Pod) -> SignedDuration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    SignedDuration::from_secs(own.unwrap_or(30).max(0))
}

/// Which part a container has in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Runs to its end before the next one starts.
    Init,
    /// Starts with the init containers, stays beside the main ones, ends after them.
    Sidecar,
    /// What the pod is for.
    Main,
}

/// A container and its part, init containers first.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = (Part, &Container)> {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
        let always = container.restart_policy.as_deref() == Some("Always");
        (if always { Part::Sidecar } else { Part::Init }, container)
    });
    let main =
        spec.into_iter().flat_map(|spec| spec.containers.iter()).map(|container| (Part::Main, container));
    init.chain(main)
}

/// What a container will do next, by itself or by its restart policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outlook<'a> {
    /// It was never started.
    New,
    /// It runs, or is about to.
    Up(&'a Run),
    /// It ended, and starts again at this time at this level.
    Again { run: &'a Run, exit: &'a Exit, at: Timestamp, level: u32 },
    /// It ended for good.
    Over { run: &'a Run, exit: &'a Exit },
}

impl<'a> Sight<'a> {
    pub(crate) fn outlook(&self, part: Part, container: &Container) -> Outlook<'a> {
        let Some(run) = self.runs.get(&container.name) else { return Outlook::New };
        let exit = match &run.instance {
            Instance::Absent => return Outlook::New,
            Instance::Starting | Instance::Running { .. } => return Outlook::Up(run),
            Instance::Ended(exit) => exit,
        };
        if !self.restarts(part, exit.code) {
            return Outlook::Over { run, exit };
        }
        let level = self.back_off.next_level(run.level, exit);
        Outlook::Again { run, exit, at: self.back_off.due(level, exit), level }
    }

    fn restarts(&self, part: Part, code: i32) -> bool {
        let policy =
            self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
        match (part, policy) {
            (Part::Sidecar, _) | (Part::Main, "Always") => true,
            (Part::Init, "Always") | (_, "OnFailure") => code != 0,
            _ => false,
        }
    }

    pub(crate) fn is_up(&self, container: &Container) -> bool {
        self.runs
            .get(&container.name)
            .is_some_and(|run| matches!(run.instance, Instance::Starting | Instance::Running { .. }))
    }

    /// True when a container has run, whatever became of it.
    pub(crate) fn was_started(&self, container: &Container) -> bool {
        self.runs.get(&container.name).is_some_and(|run| run.instance != Instance::Absent)
    }
}
