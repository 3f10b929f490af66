//! `kubeflow.org/v1` TFJob.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_policy::{ReplicaSpecs, RunPolicy};
use crate::status::JobStatus;

/// A distributed TensorFlow job.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "TFJob",
    plural = "tfjobs",
    singular = "tfjob",
    namespaced,
    status = "JobStatus",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[-1:].type"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TFJobSpec {
    /// Limits and clean-up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub run_policy: RunPolicy,
    /// Empty: worker 0 (or the chief) decides. AllWorkers: all workers must succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<String>,
    /// Chief, Master, Worker, PS and Evaluator.
    #[schemars(required)]
    pub tf_replica_specs: ReplicaSpecs,
    /// Workers may come and go: each learns only of itself and the parameter servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enable_dynamic_worker: bool,
}
