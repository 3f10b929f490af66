//! `kubeflow.org/v1` PaddleJob.

use trainyard_api::PaddleJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "PaddleJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "paddlejobs",
    singular: "paddlejob",
    controller: "paddlejob-controller",
    replica_specs: "paddleReplicaSpecs",
    framework: "paddle",
    selector_in_status: true,
    exact_replica_types: true,
    check_spec: check_as::<PaddleJobSpec>,
    wording: |has_leader| Wording {
        qualified: !has_leader,
        succeeded: if has_leader { "is successfully completed" } else { "successfully completed" },
        failed_qualified: false,
        failed: "is failed because",
    },
};
