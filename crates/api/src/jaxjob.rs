//! `kubeflow.org/v1` JAXJob.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_policy::{ReplicaSpecs, RunPolicy};
use crate::status::JobStatus;

/// A distributed JAX job.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "JAXJob",
    plural = "jaxjobs",
    singular = "jaxjob",
    namespaced,
    status = "JobStatus",
    scale(
        spec_replicas_path = ".spec.jaxReplicaSpecs.Worker.replicas",
        status_replicas_path = ".status.replicaStatuses.Worker.active",
        label_selector_path = ".status.replicaStatuses.Worker.selector"
    ),
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[-1:].type"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct JAXJobSpec {
    /// Limits and clean-up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub run_policy: RunPolicy,
    /// Worker; worker 0 coordinates.
    #[schemars(required)]
    pub jax_replica_specs: ReplicaSpecs,
}
