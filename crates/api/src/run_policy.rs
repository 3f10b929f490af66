//! What all kinds share in their spec: run policy, scheduling policy and replica specs.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::template::PodTemplate;

/// Replica specs by replica type. A map and not named fields, because users wrote it so and types are open.
pub type ReplicaSpecs = BTreeMap<String, ReplicaSpec>;

/// One group of identical replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// How many replicas; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pod that each replica runs. Its own restartPolicy is overwritten.
    #[serde(default, skip_serializing_if = "PodTemplate::is_empty")]
    pub template: PodTemplate,
    /// Always, OnFailure, Never or ExitCode; the default depends on the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
}

/// What happens to a replica that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartPolicy {
    /// The kubelet restarts the container whatever its exit code.
    Always,
    /// The kubelet restarts the container after a non-zero exit code.
    OnFailure,
    /// A failed replica fails the job.
    Never,
    /// Exit codes of 128 and more are retried with a new pod; 1 to 127 fail the job.
    ExitCode,
}

impl RestartPolicy {
    /// Every policy, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Always, Self::OnFailure, Self::Never, Self::ExitCode];

    /// The spelling in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::OnFailure => "OnFailure",
            Self::Never => "Never",
            Self::ExitCode => "ExitCode",
        }
    }

    /// Reads the spelling of manifests.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text)
    }

    /// The policy the pod itself gets: the kubelet knows no ExitCode.
    pub fn of_pod(self) -> &'static str {
        match self {
            Self::ExitCode => "Never",
            Self::Always | Self::OnFailure | Self::Never => self.as_str(),
        }
    }
}

/// Which pods and services are deleted when the job has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanPodPolicy {
    /// All of them. Unknown spellings mean this too: so it was in the operator we replace.
    All,
    /// Those that still run or wait to run.
    Running,
    /// None of them.
    #[default]
    None,
}

impl CleanPodPolicy {
    /// Reads the spelling of manifests; nothing is `None`, anything unknown is `All`.
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("None") => Self::None,
            Some("Running") => Self::Running,
            Some(_) => Self::All,
        }
    }
}

/// Limits and clean-up, the same for every kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPolicy {
    /// All, Running or None (default): which pods and services to delete once the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,
    /// Delete the job this many seconds after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Fail the job when it has been active this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// How many restarts before the next failure fails the job; unlimited if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Input for gang schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<SchedulingPolicy>,
    /// True stops the job: its pods are deleted until this is false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub suspend: Option<bool>,
    /// Which controller runs the job: `kubeflow.org/training-operator` (default) or `kueue.x-k8s.io/multikueue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// Input for gang schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// How many pods must be placed together; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The queue of the gang scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self == oldSelf",
        "message": "spec.runPolicy.schedulingPolicy.queue is immutable"
    }]))]
    pub queue: Option<String>,
    /// Resources that must be free together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<BTreeMap<String, Quantity>>,
    /// Priority class of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// How long the gang may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}
