//! `kubeflow.org/v1` PaddleJob.

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_policy::{ReplicaSpecs, RunPolicy};
use crate::status::JobStatus;

/// A distributed PaddlePaddle job.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "PaddleJob",
    plural = "paddlejobs",
    singular = "paddlejob",
    namespaced,
    status = "JobStatus",
    scale(
        spec_replicas_path = ".spec.paddleReplicaSpecs.Worker.replicas",
        status_replicas_path = ".status.replicaStatuses.Worker.active",
        label_selector_path = ".status.replicaStatuses.Worker.selector"
    ),
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[-1:].type"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PaddleJobSpec {
    /// Limits and clean-up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub run_policy: RunPolicy,
    /// How many workers the job may have while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_policy: Option<PaddleElasticPolicy>,
    /// Worker alone (collective training), or Master and Worker (parameter servers).
    #[schemars(required)]
    pub paddle_replica_specs: ReplicaSpecs,
}

/// How many workers the job may have while it runs. Of these fields only the bounds have a use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaddleElasticPolicy {
    /// Fewest workers the training goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Most workers it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// How often pods may be restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<i32>,
    /// Metrics for a horizontal autoscaler. None is created for this kind: write your own, it scales the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<MetricSpec>>,
}
