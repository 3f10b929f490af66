//! `kubeflow.org/v1` MPIJob.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_policy::{ReplicaSpecs, RunPolicy};
use crate::status::JobStatus;

/// A job that `mpirun` starts: one launcher, and workers it reaches by name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "MPIJob",
    plural = "mpijobs",
    singular = "mpijob",
    namespaced,
    status = "JobStatus",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[-1:].type"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MPIJobSpec {
    /// Processes on each worker; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<i32>,
    /// An older place of `runPolicy.cleanPodPolicy`, which counts if both are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,
    /// The container of a worker that processes are started in; the first one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_container: Option<String>,
    /// Launcher and Worker.
    #[schemars(required)]
    pub mpi_replica_specs: ReplicaSpecs,
    /// Limits and clean-up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub run_policy: RunPolicy,
}
