//! From the JSON of an object to a [`JobView`]: decode, default, validate, once, here.
//!
//! Two things can be wrong with an object. It may not decode at all ([`Undecodable`]): then nothing is known of
//! it but its metadata. Or it decodes and breaks a rule: then the view is there, with the errors beside it, so
//! that a job that has already ended is still cleaned up.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use trainyard_api::{CleanPodPolicy, JobStatus, PodTemplate, ReplicaSpecs, RunPolicy, labels};

use crate::defaults;
use crate::field_error::FieldError;
use crate::framework::Framework;
use crate::job::{JobView, Policy};
use crate::kind::Kind;
use crate::record::Record;
use crate::{frameworks, kinds, validate};

/// The kinds and frameworks an operator works with. Authors of operators pass tables of their own.
#[derive(Clone, Copy)]
pub struct Catalog {
    /// The kinds it watches.
    pub kinds: &'static [&'static Kind],
    /// The frameworks they may name.
    pub frameworks: &'static [&'static dyn Framework],
}

impl Default for Catalog {
    fn default() -> Self {
        Self { kinds: kinds::ALL, frameworks: frameworks::ALL }
    }
}

impl Catalog {
    /// The kind of that name.
    pub fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.kinds.iter().copied().find(|kind| kind.name == name)
    }

    /// The framework of that name.
    pub fn framework(&self, name: &str) -> Option<&'static dyn Framework> {
        self.frameworks.iter().copied().find(|framework| framework.facts().name == name)
    }
}

/// A job that decoded.
#[derive(Clone)]
pub struct Decoded {
    /// The job.
    pub job: JobView,
    /// Its framework.
    pub framework: &'static dyn Framework,
    /// Rules it breaks. Not empty means that it must not run.
    pub errors: Vec<FieldError>,
}

/// A job of which nothing is known but its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecodable {
    /// The first thing that could not be read.
    pub error: FieldError,
    /// The status, if that could be read.
    pub status: JobStatus,
    /// True when `runPolicy.managedBy` names somebody else, as far as can be seen.
    pub managed_elsewhere: bool,
}

/// Reads an object of `kind`.
pub fn decode(catalog: &Catalog, kind: &'static Kind, object: &Value) -> Result<Decoded, Box<Undecodable>> {
    read(catalog, kind, object).map_err(|error| Box::new(Undecodable::of(object, error)))
}

impl Undecodable {
    fn of(object: &Value, error: FieldError) -> Self {
        let status = object.get("status").and_then(|s| JobStatus::deserialize(s).ok()).unwrap_or_default();
        let managed_by = object.pointer("/spec/runPolicy/managedBy").and_then(Value::as_str);
        Self { error, status, managed_elsewhere: elsewhere(managed_by) }
    }
}

fn elsewhere(managed_by: Option<&str>) -> bool {
    managed_by.is_some_and(|name| name != labels::managed_by::TRAINING_OPERATOR)
}

fn read(catalog: &Catalog, kind: &'static Kind, object: &Value) -> Result<Decoded, FieldError> {
    let meta = Metadata::read(object)?;
    let status = field::<JobStatus>(object, "status")?;
    let mut spec = object.get("spec").cloned().unwrap_or(Value::Null);
    drop_nulls(&mut spec);
    let specs_path = format!("spec.{}", kind.replica_specs);
    if spec.get(kind.replica_specs).is_none() {
        return Err(FieldError::required(specs_path, "must be required"));
    }
    (kind.check_spec)(&spec)?;
    let Value::Object(mut options) = spec else {
        return Err(FieldError::wrong_type("spec", "must be an object"));
    };
    let mut policy: RunPolicy = take(&mut options, "runPolicy")?;
    if policy.clean_pod_policy.is_none() {
        // An older place of it, which some kinds still have.
        policy.clean_pod_policy = options.get("cleanPodPolicy").and_then(Value::as_str).map(str::to_owned);
    }
    let specs: ReplicaSpecs = take(&mut options, kind.replica_specs)?;
    check_templates(kind, &specs)?;
    let Some(framework) = catalog.framework(kind.framework) else {
        let known: Vec<&str> = catalog.frameworks.iter().map(|f| f.facts().name).collect();
        return Err(FieldError::not_supported("spec.framework", kind.framework, &known));
    };
    let of_policy = validate::run_policy(&policy);
    let of_specs = validate::specs(kind, framework, &specs);
    let annotation = meta.annotations.get(labels::RECORD).map(String::as_str);
    let record = Record::of(&meta.uid, annotation, status != JobStatus::default());
    let uid = meta.uid.clone();
    let mut job = JobView {
        kind,
        namespace: meta.namespace,
        name: meta.name,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deleting: meta.deletion_timestamp.is_some(),
        annotations: meta.annotations,
        policy: policy_view(&policy),
        roles: defaults::roles(framework.facts(), specs),
        options,
        status,
        has_record: record.is_some(),
        record: record.unwrap_or_else(|| Record::blank(&uid)),
        ignored: Vec::new(),
    };
    framework.default(&mut job);
    job.ignored = validate::annotations(&job);
    let of_name = validate::name(framework.facts(), &job);
    let errors = [of_name, of_policy, of_specs, framework.validate(&job)].concat();
    Ok(Decoded { job, framework, errors })
}

fn policy_view(policy: &RunPolicy) -> Policy {
    let gang = policy.scheduling_policy.as_ref();
    Policy {
        clean: CleanPodPolicy::parse(policy.clean_pod_policy.as_deref()),
        // Less than no time is none.
        ttl: policy.ttl_seconds_after_finished.map(|seconds| i64::from(seconds.max(0))),
        deadline: policy.active_deadline_seconds,
        backoff_limit: policy.backoff_limit.map(|n| u32::try_from(n).unwrap_or(0)),
        suspend: policy.suspend.unwrap_or(false),
        managed_elsewhere: elsewhere(policy.managed_by.as_deref()),
        min_available: gang.and_then(|g| g.min_available).and_then(|n| u32::try_from(n).ok()),
        scheduling: gang.cloned().unwrap_or_default(),
    }
}

/// The typed form of a template is made only to learn where it does not decode.
fn check_templates(kind: &Kind, specs: &ReplicaSpecs) -> Result<(), FieldError> {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    for (role, spec) in specs {
        let PodTemplate(template) = &spec.template;
        if template.is_null() {
            continue;
        }
        if let Err(error) = serde_path_to_error::deserialize::<_, PodTemplateSpec>(template) {
            let path = format!("spec.{}.{role}.template.{}", kind.replica_specs, error.path());
            return Err(FieldError::wrong_type(path, error.into_inner()));
        }
    }
    Ok(())
}

/// What the engine needs of `metadata`. Every field has a default: a missing one is no reason to refuse.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    fn read(object: &Value) -> Result<Self, FieldError> {
        let mut meta: Self = field(object, "metadata")?;
        if meta.namespace.is_empty() {
            meta.namespace = "default".into();
        }
        Ok(meta)
    }
}

fn null_is_default<'de, D, T>(decoder: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(decoder)?.unwrap_or_default())
}

fn field<T: Default + for<'de> Deserialize<'de>>(object: &Value, name: &str) -> Result<T, FieldError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => serde_path_to_error::deserialize(value)
            .map_err(|error| FieldError::wrong_type(format!("{name}.{}", error.path()), error.into_inner())),
    }
}

fn take<T: Default + for<'de> Deserialize<'de>>(
    spec: &mut Map<String, Value>,
    name: &str,
) -> Result<T, FieldError> {
    let value = spec.remove(name).unwrap_or(Value::Null);
    if value.is_null() {
        return Ok(T::default());
    }
    serde_path_to_error::deserialize(value)
        .map_err(|error| FieldError::wrong_type(format!("spec.{name}.{}", error.path()), error.into_inner()))
}

/// `field: null` means the same as no field, everywhere in Kubernetes.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
