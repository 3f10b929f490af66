//! A pod template that keeps what it does not understand.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A pod template as the user wrote it.
///
/// Pods are built from this raw form: a typed struct would drop every field that is newer than the types we were
/// compiled with. [`PodTemplate::typed`] says whether it decodes, and is for reading only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);

impl PodTemplate {
    /// True when nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// The template as Kubernetes types.
    pub fn typed(&self) -> Result<PodTemplateSpec, serde_json::Error> {
        PodTemplateSpec::deserialize(&self.0)
    }
}

impl From<&PodTemplateSpec> for PodTemplate {
    fn from(typed: &PodTemplateSpec) -> Self {
        Self(serde_json::to_value(typed).unwrap_or(Value::Null))
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PodTemplateSpec::json_schema(generator)
    }
}
