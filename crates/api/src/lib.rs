//! The custom resource types of Trainyard: what users write and what the operator reports.
//!
//! Types, labels and reasons only. Defaulting and validation live in `trainyard-core`, so that the operator,
//! `explain` and admission share one rule set. There is no client and no runtime here: any program that wants to
//! speak of training jobs can depend on this crate cheaply.

pub mod crds;
pub mod jaxjob;
pub mod labels;
pub mod mpijob;
pub mod paddlejob;
pub mod pytorchjob;
pub mod reasons;
pub mod run_policy;
pub mod status;
pub mod template;
pub mod tfjob;
pub mod xgboostjob;

pub use jaxjob::{JAXJob, JAXJobSpec};
pub use mpijob::{MPIJob, MPIJobSpec};
pub use paddlejob::{PaddleElasticPolicy, PaddleJob, PaddleJobSpec};
pub use pytorchjob::{ElasticPolicy, PyTorchJob, PyTorchJobSpec};
pub use run_policy::{CleanPodPolicy, ReplicaSpec, ReplicaSpecs, RestartPolicy, RunPolicy, SchedulingPolicy};
pub use status::{Condition, ConditionStatus, FirstFailure, JobStatus, ReplicaStatus};
pub use template::PodTemplate;
pub use tfjob::{TFJob, TFJobSpec};
pub use xgboostjob::{XGBoostJob, XGBoostJobSpec};
