//! `kubeflow.org/v1` XGBoostJob.

use trainyard_api::XGBoostJobSpec;

use crate::kind::{Kind, Wording, check_as};

pub(super) static KIND: Kind = Kind {
    name: "XGBoostJob",
    group: "kubeflow.org",
    version: "v1",
    plural: "xgboostjobs",
    singular: "xgboostjob",
    controller: "xgboostjob-controller",
    replica_specs: "xgbReplicaSpecs",
    framework: "xgboost",
    selector_in_status: false,
    exact_replica_types: true,
    check_spec: check_as::<XGBoostJobSpec>,
    wording: |_| Wording {
        qualified: false,
        succeeded: "is successfully completed",
        failed_qualified: false,
        failed: "is failed because",
    },
};
