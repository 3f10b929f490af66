//! `kubeflow.org/v1` MPIJob.

use trainyard_api::MPIJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "MPIJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "mpijobs",
    singular: "mpijob",
    controller: "mpijob-controller",
    replica_specs: "mpiReplicaSpecs",
    framework: "mpi",
    selector_in_status: false,
    exact_replica_types: true,
    check_spec: check_as::<MPIJobSpec>,
    wording: |_| Wording {
        qualified: false,
        succeeded: "is successfully completed",
        failed_qualified: false,
        failed: "is failed because",
    },
};
