//! Where things are in a job object: the half of a job that is not about its framework.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::field_error::FieldError;

/// One custom resource kind that the engine can plan. A value in a table, not a trait: kinds differ in data only.
#[derive(Debug)]
pub struct Kind {
    /// `TFJob`.
    pub name: &'static str,
    /// `kubeflow.org`.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `tfjobs`.
    pub plural: &'static str,
    /// `tfjob`.
    pub singular: &'static str,
    /// Value of the operator-name label and source of events.
    pub controller: &'static str,
    /// The field of `spec` that maps replica types to replica specs.
    pub replica_specs: &'static str,
    /// The framework that wires its replicas.
    pub framework: &'static str,
    /// Whether `status.replicaStatuses` carries selector strings (kinds with a scale subresource do).
    pub selector_in_status: bool,
    /// Whether replica types have to be spelt exactly. If not, their case does not matter.
    pub exact_replica_types: bool,
    /// Decodes the spec into its typed form, only to learn whether it decodes and where it does not.
    pub check_spec: fn(&Value) -> Result<(), FieldError>,
    /// How conditions of this kind are worded; the argument says whether the job has a leader replica.
    pub wording: fn(has_leader: bool) -> Wording,
}

/// The wording of conditions differs by kind, and scripts of users match on it.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// Running and Succeeded say `namespace/name` instead of `name`.
    pub qualified: bool,
    /// Between subject and full stop of Succeeded.
    pub succeeded: &'static str,
    /// Failed says `namespace/name` instead of `name`.
    pub failed_qualified: bool,
    /// Between subject and the number of failed replicas.
    pub failed: &'static str,
}

impl Kind {
    /// `kubeflow.org/v1`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// A condition reason of this kind.
    pub fn reason(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name)
    }

    /// The merge patch that suspends a job of this kind, or resumes it.
    pub fn suspension(&self, suspend: bool) -> Value {
        json!({ "spec": { "runPolicy": { "suspend": suspend } } })
    }

    /// The path of one replica spec in error messages.
    pub fn role_path(&self, role: &str) -> String {
        format!("spec.{}[{role}]", self.replica_specs)
    }
}

/// The usual [`Kind::check_spec`]: decode as `T`, keep the path of the first error.
pub fn check_as<T: DeserializeOwned>(spec: &Value) -> Result<(), FieldError> {
    match serde_path_to_error::deserialize::<_, T>(spec) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = format!("spec.{}", error.path());
            Err(FieldError::wrong_type(path, error.into_inner()))
        }
    }
}
