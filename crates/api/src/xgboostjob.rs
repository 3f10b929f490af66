//! `kubeflow.org/v1` XGBoostJob.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_policy::{ReplicaSpecs, RunPolicy};
use crate::status::JobStatus;

/// A distributed XGBoost or LightGBM job.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "XGBoostJob",
    plural = "xgboostjobs",
    singular = "xgboostjob",
    namespaced,
    status = "JobStatus",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[-1:].type"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct XGBoostJobSpec {
    /// Limits and clean-up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub run_policy: RunPolicy,
    /// Master (exactly one) and Worker.
    #[schemars(required)]
    pub xgb_replica_specs: ReplicaSpecs,
}
