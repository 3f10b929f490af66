//! A pod as the engine sees it: the few facts that decisions rest on.

use jiff::Timestamp;
use trainyard_api::RestartPolicy;

use crate::seen::PortBlock;

/// `status.reason` of a pod whose host port was taken by somebody else: the node says so, it is no failure.
pub const PORT_TAKEN: &str = "PortTaken";

/// A pod of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// Value of the replica-type label.
    pub role: Box<str>,
    /// Value of the replica-index label, if it is a number.
    pub index: Option<u32>,
    /// False when the labels that the watch selects on are gone.
    pub labelled: bool,
    /// The attempt of the job it was made for.
    pub attempt: u32,
    /// Which of the replica's pods in that attempt it is.
    pub incarnation: u32,
    /// How much of the restart budget was used when it was created, by the pod's own account.
    pub used: u32,
    /// The ports of its attempt, by the pod's own account.
    pub ports: Option<PortBlock>,
    /// True while it is kept from going before its end is written down.
    pub tracked: bool,
    /// How many pods it wants to be placed with, if it says so.
    pub gang: Option<u32>,
    /// How many seconds it may be active, if it says so.
    pub active_deadline: Option<i64>,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it was created, by the API server's clock.
    pub created: Option<Timestamp>,
    /// When its node took it on, by the node's clock.
    pub taken_on: Option<Timestamp>,
    /// When this operator first saw that it was over, by the operator's clock.
    pub seen_over: Option<Timestamp>,
    /// When it was asked to end, if it was.
    pub deleting: Option<Timestamp>,
    /// `status.reason`.
    pub reason: Option<Box<str>>,
    /// Reason of a true `DisruptionTarget` condition: why Kubernetes itself ends it.
    pub disruption: Option<Box<str>>,
    /// When that condition became true.
    pub disrupted: Option<Timestamp>,
    /// Its containers, init containers first.
    pub containers: Box<[ContainerView]>,
    /// The node it is bound to.
    pub node: Option<Box<str>>,
    /// Why it does not start, if somebody said so.
    pub waits: Option<Box<Waits>>,
}

/// Why a pod does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Who says so.
    pub on: WaitsOn,
    /// What they say.
    pub message: Box<str>,
    /// Since when the pod is there.
    pub since: Timestamp,
}

/// What a pod that does not start needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsOn {
    /// A node.
    Node,
    /// An image.
    Image,
    /// A ConfigMap, a Secret, or whatever else its containers are configured with.
    Config,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// All containers ended with 0 and will not start again.
    Succeeded,
    /// All containers ended, one of them badly, and will not start again.
    Failed,
    /// Its node does not answer.
    Unknown,
}

impl Phase {
    /// Reads `status.phase`.
    pub fn parse(text: &str) -> Self {
        match text {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }

    /// True when the pod will never run again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// One container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name.
    pub name: Box<str>,
    /// True for an init container: it ends before the others start, and that is no end of the replica.
    pub init: bool,
    /// What it does now.
    pub state: ContainerState,
    /// How it ended before it was started again, or was to be.
    pub last: Option<Box<End>>,
    /// How often the kubelet started it again in place.
    pub restarts: u32,
    /// Since when it runs, if it runs.
    pub since: Option<Timestamp>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit code.
    pub exit: i32,
    /// `OOMKilled`, `Error`, …
    pub reason: Option<Box<str>>,
}

impl ContainerView {
    /// Exit code and reason of the end it is in, or waits to be started after.
    pub fn end(&self) -> Option<(i32, Option<&str>)> {
        match &self.state {
            ContainerState::Terminated { exit, reason, .. } => Some((*exit, reason.as_deref())),
            ContainerState::Waiting { .. } => {
                self.last.as_deref().map(|end| (end.exit, end.reason.as_deref()))
            }
            ContainerState::Running => None,
        }
    }

    /// How it ended the last time, also if it runs again.
    pub fn last_end(&self) -> Option<(i32, Option<&str>)> {
        self.end().or_else(|| self.last.as_deref().map(|end| (end.exit, end.reason.as_deref())))
    }

    /// True when it ended badly and does not run.
    pub fn has_failed(&self) -> bool {
        self.end().is_some_and(|(exit, _)| exit != 0)
    }
}

/// What a container does now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started yet, or waiting to be started again.
    Waiting {
        /// `CrashLoopBackOff`, `ImagePullBackOff`, …
        reason: Option<Box<str>>,
    },
    /// It runs.
    #[default]
    Running,
    /// It ended.
    Terminated {
        /// Its exit code.
        exit: i32,
        /// `OOMKilled`, `Error`, …
        reason: Option<Box<str>>,
        /// When it started.
        started: Option<Timestamp>,
        /// When it ended.
        finished: Option<Timestamp>,
    },
}

/// Whose fault the end of a pod was. Only the user's own failures use the restart budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program ended with a non-zero code.
    Application,
    /// The program used more memory than it was allowed: its own doing.
    OutOfMemory,
    /// A more important pod took its place.
    Preempted,
    /// The node was short of something, or was drained.
    Evicted,
    /// The node went away.
    NodeLost,
    /// The node refused the pod.
    Refused,
    /// A host port was taken: the job needs other ports.
    PortTaken,
}

impl Cause {
    /// True when the user could not have prevented it.
    pub fn is_infrastructure(self) -> bool {
        !matches!(self, Self::Application | Self::OutOfMemory)
    }

    /// For reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application error",
            Self::OutOfMemory => "out of memory",
            Self::Preempted => "preempted",
            Self::Evicted => "evicted",
            Self::NodeLost => "node lost",
            Self::Refused => "refused by the node",
            Self::PortTaken => "port taken",
        }
    }
}

impl PodView {
    /// Exit code of the named container, if it has ended.
    pub fn exit_code(&self, container: &str) -> Option<i32> {
        self.training_container(container).and_then(|c| match c.state {
            ContainerState::Terminated { exit, .. } => Some(exit),
            ContainerState::Waiting { .. } | ContainerState::Running => None,
        })
    }

    /// The container of that name; if there is none, the first that is no init container.
    fn training_container(&self, name: &str) -> Option<&ContainerView> {
        let named = self.containers.iter().find(|c| &*c.name == name);
        named.or_else(|| self.containers.iter().find(|c| !c.init))
    }

    /// Whose fault it was, for a pod in phase Failed.
    pub fn cause(&self) -> Cause {
        // A drain marks pods that had ended before, too: what ended them was something else.
        let disruption = self.disruption.as_deref().filter(|_| !self.ended_before_its_disruption());
        match (self.reason.as_deref(), disruption) {
            (Some(PORT_TAKEN), _) => Cause::PortTaken,
            (_, Some("PreemptionByScheduler")) | (Some("Preempting" | "Preempted"), _) => Cause::Preempted,
            (_, Some("DeletionByTaintManager" | "DeletionByPodGC")) => Cause::NodeLost,
            (Some("NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated"), _) => Cause::NodeLost,
            (_, Some("EvictionByEvictionAPI" | "TerminationByKubelet")) | (Some("Evicted"), _) => {
                Cause::Evicted
            }
            (Some(reason), _) if refused(reason) => Cause::Refused,
            _ if self.any_ended("OOMKilled") => Cause::OutOfMemory,
            // Nobody saw how it ended: the node was down, or lost what watched over it.
            _ if self.any_ended("ContainerStatusUnknown") => Cause::NodeLost,
            // A node has more reasons to refuse a pod than a list could name, and none of them is the program's doing.
            _ if self.never_started() => Cause::Refused,
            _ => Cause::Application,
        }
    }

    /// True when the pod had ended before Kubernetes said that it would end it.
    fn ended_before_its_disruption(&self) -> bool {
        let finished = self.last_run().map(|(_, finished)| finished);
        let before = finished.zip(self.disrupted).is_some_and(|(finished, disrupted)| finished < disrupted);
        before && !self.node_clock_is_late()
    }

    /// True when the pod failed before any of its containers was started: its node refused it.
    pub fn never_started(&self) -> bool {
        let ran = |container: &ContainerView| match &container.state {
            _ if container.restarts > 0 || container.last.is_some() => true,
            ContainerState::Running => true,
            ContainerState::Waiting { .. } => false,
            // A kubelet writes this of containers that it does not know, also of those that never were.
            ContainerState::Terminated { reason, started, .. } => {
                started.is_some() || reason.as_deref() != Some("ContainerStatusUnknown")
            }
        };
        self.phase == Phase::Failed && !self.containers.iter().any(ran)
    }

    /// True when the replica has done its work: its training container ended well, and before anybody asked the pod to
    /// end. A program that is told to end may well exit with 0 in the middle of its training.
    ///
    /// Where the times are equal, unknown or contradict each other the work is not done: doing it again costs time, a
    /// training that is wrongly called finished is lost.
    pub fn has_succeeded(&self, container: &str) -> bool {
        self.phase == Phase::Succeeded && (!self.was_asked() || self.finished_before_it_was_asked(container))
    }

    /// True when the pod was asked to end: it is being deleted, or Kubernetes said that it would be.
    fn was_asked(&self) -> bool {
        self.deleting.is_some() || self.disruption.is_some()
    }

    fn finished_before_it_was_asked(&self, container: &str) -> bool {
        let Some(ContainerState::Terminated { finished: Some(finished), .. }) =
            self.training_container(container).map(|container| &container.state)
        else {
            return false;
        };
        let when_unknown = self.disruption.is_some() && self.disrupted.is_none();
        let asked = [self.deleting, self.disrupted].into_iter().flatten().min();
        !when_unknown && !self.node_clock_is_late() && asked.is_some_and(|asked| *finished < asked)
    }

    /// True when the node's clock is behind the API server's: the pod began before it was created. An end by such a clock
    /// seems earlier than it was.
    fn node_clock_is_late(&self) -> bool {
        let starts = self.containers.iter().filter_map(|container| match container.state {
            ContainerState::Terminated { started, .. } => started,
            ContainerState::Waiting { .. } | ContainerState::Running => container.since,
        });
        let first = starts.chain(self.taken_on).min();
        first.zip(self.created).is_some_and(|(first, created)| first < created)
    }

    fn any_ended(&self, how: &str) -> bool {
        self.containers.iter().any(|c| {
            matches!(&c.state, ContainerState::Terminated { reason: Some(reason), .. } if &**reason == how)
        })
    }

    /// Container ends that the kubelet answered, or is about to answer, with a restart in place.
    ///
    /// `restartCount` alone lags behind: when a container lies in CrashLoopBackOff after its Nth restart, the end
    /// that uses up a budget of N has already happened.
    pub fn ends_in_place(&self, policy: RestartPolicy) -> u32 {
        let down = u32::try_from(self.down(policy).count()).unwrap_or(u32::MAX);
        self.restarts_of(policy).saturating_add(down)
    }

    /// True when a container has ended and the kubelet is about to start it again.
    pub fn is_down(&self, policy: RestartPolicy) -> bool {
        self.down(policy).next().is_some()
    }

    fn down(&self, policy: RestartPolicy) -> impl Iterator<Item = &ContainerView> {
        let in_place =
            matches!(policy, RestartPolicy::Always | RestartPolicy::OnFailure) && !self.phase.is_over();
        self.containers.iter().filter(move |c| match &c.state {
            _ if !in_place => false,
            ContainerState::Waiting { reason } => reason.as_deref() == Some("CrashLoopBackOff"),
            ContainerState::Terminated { finished, .. } if self.asked_before(*finished) => false,
            ContainerState::Terminated { exit, .. } => {
                *exit != 0 || (policy == RestartPolicy::Always && !c.init)
            }
            ContainerState::Running => false,
        })
    }

    /// True when the pod ended because somebody deleted it: how it ended says nothing about the program then. (When
    /// Kubernetes itself does it, it leaves a disruption as the cause.)
    ///
    /// Such a pod is seen in its last phase only by chance: it is gone a moment later. What follows must be the
    /// same as when it was seen while it was still ending.
    pub fn ended_by_deletion(&self) -> bool {
        self.disruption.is_none() && self.asked_before(self.last_run().map(|(_, finished)| finished))
    }

    /// True when the pod was asked to end, and that before this moment; a moment nobody knows came after.
    fn asked_before(&self, moment: Option<Timestamp>) -> bool {
        self.deleting.is_some_and(|asked| moment.is_none_or(|moment| moment >= asked))
    }

    /// How often the kubelet started containers of this pod again.
    pub fn restarts_in_place(&self) -> u32 {
        self.containers.iter().fold(0, |sum, c| sum.saturating_add(c.restarts))
    }

    /// How often that was the program's doing. What is restarted although the policy does not say so is beside it:
    /// sidecars, whose ends are nobody's failure.
    pub fn restarts_of(&self, policy: RestartPolicy) -> u32 {
        match policy {
            RestartPolicy::Always | RestartPolicy::OnFailure => self.restarts_in_place(),
            RestartPolicy::Never | RestartPolicy::ExitCode => 0,
        }
    }

    /// How long it ran and when it ended, from its containers.
    pub fn last_run(&self) -> Option<(Option<Timestamp>, Timestamp)> {
        let ends = self.containers.iter().filter_map(|c| match c.state {
            ContainerState::Terminated { started, finished: Some(finished), .. } => Some((started, finished)),
            ContainerState::Terminated { .. } | ContainerState::Waiting { .. } | ContainerState::Running => {
                None
            }
        });
        ends.max_by_key(|(_, finished)| *finished)
    }
}

/// Reasons with which a kubelet refuses a pod that was bound to it.
fn refused(reason: &str) -> bool {
    reason.starts_with("OutOf")
        || matches!(
            reason,
            "UnexpectedAdmissionError"
                | "NodeAffinity"
                | "NodePorts"
                | "AdmissionError"
                | "TopologyAffinityError"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ended(exit: i32, finished: i64, deleting: Option<i64>) -> PodView {
        let state = ContainerState::Terminated {
            exit,
            reason: None,
            started: Some(at(0)),
            finished: Some(at(finished)),
        };
        PodView {
            name: "a".into(),
            uid: "u".into(),
            role: "worker".into(),
            index: Some(0),
            labelled: true,
            phase: Phase::Running,
            deleting: deleting.map(at),
            containers: Box::new([ContainerView {
                name: "c".into(),
                state,
                restarts: 2,
                ..ContainerView::default()
            }]),
            ..PodView::default()
        }
    }

    #[test]
    fn restarts_of_what_may_not_be_restarted_are_those_of_sidecars() {
        let pod = ended(0, 10, None);
        assert_eq!(
            (pod.ends_in_place(RestartPolicy::Never), pod.restarts_of(RestartPolicy::ExitCode)),
            (0, 0)
        );
        assert_eq!(pod.ends_in_place(RestartPolicy::OnFailure), 2);
    }

    #[test]
    fn an_end_that_nobody_saw_is_no_failure_of_the_program() {
        let mut pod = ended(137, 10, None);
        assert_eq!(pod.cause(), Cause::Application);
        if let ContainerState::Terminated { reason, .. } = &mut pod.containers[0].state {
            *reason = Some("ContainerStatusUnknown".into());
        }
        assert_eq!(pod.cause(), Cause::NodeLost);
    }

    #[test]
    fn a_failure_before_a_drain_stays_a_failure() {
        let mut pod = ended(1, 10, None);
        (pod.phase, pod.disruption) = (Phase::Failed, Some("EvictionByEvictionAPI".into()));
        for (disrupted, cause) in
            [(Some(at(11)), Cause::Application), (Some(at(10)), Cause::Evicted), (None, Cause::Evicted)]
        {
            pod.disrupted = disrupted;
            assert_eq!(pod.cause(), cause, "{disrupted:?}");
        }
    }

    #[test]
    fn an_end_after_a_deletion_is_no_end_of_the_program() {
        assert!(ended(143, 10, Some(10)).ended_by_deletion());
        assert!(!ended(143, 9, Some(10)).ended_by_deletion(), "it had failed before");
        assert!(!ended(143, 10, None).ended_by_deletion());
    }

    #[test]
    fn a_container_that_a_deletion_ended_is_not_restarted_in_place() {
        let ends = |pod: PodView| pod.ends_in_place(RestartPolicy::OnFailure);
        assert_eq!(ends(ended(143, 10, Some(10))), 2);
        assert_eq!(ends(ended(143, 9, Some(10))), 3);
        assert_eq!(ends(ended(143, 10, None)), 3);
    }
}
