//! What happens to a pod, as data.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trainyard_api::labels;

use crate::rest::{name, namespace, text, uid};

/// Which pod a script is wanted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The job it belongs to.
    pub job: String,
    /// Replica type in lower case.
    pub role: String,
    /// Index within the type.
    pub index: u32,
    /// Attempt of the whole job.
    pub attempt: u32,
    /// How often this replica was replaced in the attempt.
    pub incarnation: u32,
    /// How many pods of this name were seen before.
    pub earlier: u32,
    /// When its node saw it first.
    pub seen: Timestamp,
}

impl PodInfo {
    pub(crate) fn of(pod: &Value, earlier: u32, seen: Timestamp) -> Self {
        let field = |root: &str, key: &str| {
            let map = pod.pointer(root).and_then(Value::as_object);
            map.and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let label = |key: &str| field("/metadata/labels", key);
        let number = |text: String| text.parse().unwrap_or(0);
        Self {
            namespace: namespace(pod).to_owned(),
            name: name(pod).to_owned(),
            uid: uid(pod).to_owned(),
            job: label(labels::JOB_NAME),
            role: label(labels::REPLICA_TYPE),
            index: number(label(labels::REPLICA_INDEX)),
            attempt: number(field("/metadata/annotations", labels::ATTEMPT)),
            incarnation: number(field("/metadata/annotations", labels::INCARNATION)),
            earlier,
            seen,
        }
    }

    /// `worker-0`.
    pub fn slot(&self) -> String {
        format!("{}-{}", self.role, self.index)
    }
}

/// Chooses a script when a pod is seen for the first time.
pub type Scripts = Arc<dyn Fn(&PodInfo) -> PodScript + Send + Sync>;

/// How a container's run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// After it ran this long.
    pub after: Duration,
    /// With this code.
    pub code: i32,
}

/// What happens to a pod's containers once they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// They run until they are told to end.
    Never,
    /// Its node does not even start them, for this reason.
    Refused(&'static str),
    /// One entry per start in place; the last is used for all further starts.
    Exits(Vec<Exit>),
    /// The kernel kills them for memory after this long.
    OutOfMemory(Duration),
    /// The node ends the pod after this long, for want of something.
    Evicted(Duration),
    /// The node stops answering after this long. Its pods are marked and deleted by the control plane, and stay.
    NodeLost(Duration),
}

/// What a pod does when it is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// Its containers end by themselves with this code after this long, or by force when the grace period is over.
    Ends(Exit),
    /// Nobody is there to end it.
    Stays,
}

/// The life of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodScript {
    /// How long no node takes it.
    pub unscheduled: Duration,
    /// How long its node needs before the first container starts.
    pub starting: Duration,
    /// How long each init container takes.
    pub init: Duration,
    /// What happens then.
    pub end: End,
    /// What happens to containers that are not the first: sidecars. The same as `end` if absent.
    pub others: Option<End>,
    /// What happens when it is deleted.
    pub on_delete: OnDelete,
    /// How long its object stays after it has ended as it was asked to.
    pub lingers: Duration,
    /// By how much the clock of its node is ahead.
    pub skew: SignedDuration,
}

impl Default for PodScript {
    /// Runs for ever, ends at once when asked to.
    fn default() -> Self {
        Self {
            unscheduled: Duration::from_millis(20),
            starting: Duration::from_millis(500),
            init: Duration::from_millis(200),
            end: End::Never,
            others: None,
            on_delete: OnDelete::Ends(Exit { after: Duration::from_millis(100), code: 143 }),
            lingers: Duration::ZERO,
            skew: SignedDuration::ZERO,
        }
    }
}

impl PodScript {
    /// Runs for ever.
    pub fn runs() -> Self {
        Self::default()
    }

    /// Ends with `code` after `seconds`, every time it is started.
    pub fn exits(code: i32, seconds: u64) -> Self {
        Self { end: End::Exits(vec![Exit { after: Duration::from_secs(seconds), code }]), ..Self::default() }
    }

    /// Ends with one code after the other, each after one second; the last repeats.
    pub fn exits_in_turn(codes: &[i32]) -> Self {
        let exit = |code: &i32| Exit { after: Duration::from_secs(1), code: *code };
        Self { end: End::Exits(codes.iter().map(exit).collect()), ..Self::default() }
    }

    /// Ends with `code` as soon as it starts.
    pub fn crashes(code: i32) -> Self {
        Self::exits(code, 0)
    }

    /// No node ever takes it.
    pub fn never_scheduled() -> Self {
        Self { unscheduled: Duration::MAX, ..Self::default() }
    }

    /// Its node never gets it started.
    pub fn never_starts() -> Self {
        Self { starting: Duration::MAX, ..Self::default() }
    }

    /// Its node refuses it.
    pub fn refused() -> Self {
        Self { end: End::Refused("UnexpectedAdmissionError"), ..Self::default() }
    }

    /// Is evicted after `seconds`.
    pub fn evicted(seconds: u64) -> Self {
        Self { end: End::Evicted(Duration::from_secs(seconds)), ..Self::default() }
    }

    /// Its node is lost after `seconds`.
    pub fn node_lost(seconds: u64) -> Self {
        let end = End::NodeLost(Duration::from_secs(seconds));
        Self { end, on_delete: OnDelete::Stays, ..Self::default() }
    }

    /// Takes `seconds` to end when asked to.
    pub fn stops_after(self, seconds: u64) -> Self {
        let exit = Exit { after: Duration::from_secs(seconds), code: 143 };
        Self { on_delete: OnDelete::Ends(exit), ..self }
    }

    /// Ends with `code` when asked to, as a program does that saves its work first.
    pub fn obeys(self, after: Duration, code: i32) -> Self {
        let lingers = Duration::from_secs(1);
        Self { on_delete: OnDelete::Ends(Exit { after, code }), lingers, ..self }
    }

    /// Its first container starts after `seconds`.
    pub fn starts_after(self, seconds: u64) -> Self {
        Self { starting: Duration::from_secs(seconds), ..self }
    }
}

/// A pod's own restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    pub(crate) fn of(pod: &Value) -> Self {
        match text(pod, "/spec/restartPolicy") {
            "OnFailure" => Self::OnFailure,
            "Never" => Self::Never,
            _ => Self::Always,
        }
    }

    pub(crate) fn restarts(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}
