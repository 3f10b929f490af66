//! `kubeflow.org/v1` TFJob.

use trainyard_api::TFJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "TFJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "tfjobs",
    singular: "tfjob",
    controller: "tfjob-controller",
    replica_specs: "tfReplicaSpecs",
    framework: "tensorflow",
    selector_in_status: false,
    exact_replica_types: false,
    check_spec: check_as::<TFJobSpec>,
    wording: |_| Wording {
        qualified: true,
        succeeded: "successfully completed",
        failed_qualified: true,
        failed: "has failed because",
    },
};
