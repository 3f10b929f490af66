//! `kubeflow.org/v1` PyTorchJob.

use trainyard_api::PyTorchJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "PyTorchJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "pytorchjobs",
    singular: "pytorchjob",
    controller: "pytorchjob-controller",
    replica_specs: "pytorchReplicaSpecs",
    framework: "pytorch",
    selector_in_status: true,
    exact_replica_types: true,
    check_spec: check_as::<PyTorchJobSpec>,
    wording: |has_leader| Wording {
        qualified: !has_leader,
        succeeded: if has_leader { "is successfully completed" } else { "successfully completed" },
        failed_qualified: false,
        failed: "is failed because",
    },
};
