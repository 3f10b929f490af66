//! `kubeflow.org/v1` JAXJob.

use trainyard_api::JAXJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "JAXJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "jaxjobs",
    singular: "jaxjob",
    controller: "jaxjob-controller",
    replica_specs: "jaxReplicaSpecs",
    framework: "jax",
    selector_in_status: true,
    exact_replica_types: true,
    check_spec: check_as::<JAXJobSpec>,
    wording: |_| Wording {
        qualified: true,
        succeeded: "successfully completed",
        failed_qualified: false,
        failed: "is failed because",
    },
};
