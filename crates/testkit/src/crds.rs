//! The CRDs a plane serves: ours, and others a cluster may keep when the operator is replaced.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use trainyard_core::Kind;
use trainyard_host::crds::Definition;

/// Which definitions a plane is started with.
#[derive(Clone, Debug, Default)]
pub enum Crds {
    /// The ones we ship.
    Ours,
    /// As the operator we replace ships them: no default for `runPolicy`, and a status that prunes what it does
    /// not know. Templates are open here, which keeps them small; nobody prunes pods anyway. Where the environment
    /// variable `TRAINYARD_UPSTREAM_CRDS` names a directory, the files in it are taken instead: the real ones.
    #[default]
    Upstream,
    /// A spec that takes anything, as on a cluster with very old definitions: bad objects get in.
    Open,
    /// These.
    Given(Vec<Value>),
}

impl Crds {
    /// The definitions, for the kinds of a catalog.
    pub fn objects(&self, kinds: &[&Kind]) -> Vec<Value> {
        match self {
            Self::Ours => {
                let read = |one: Definition| one.read().expect("the CRDs we ship can be read").into_owned();
                trainyard_host::crds::bundled().into_iter().map(read).collect()
            }
            Self::Upstream => {
                kinds.iter().map(|kind| published(kind).unwrap_or_else(|| upstream(kind))).collect()
            }
            Self::Open => kinds.iter().map(|kind| open(kind)).collect(),
            Self::Given(objects) => objects.clone(),
        }
    }
}

/// The definition that the operator we replace publishes, if somebody told us where it is. Kinds of tests have none.
fn published(kind: &Kind) -> Option<Value> {
    static READ: Mutex<BTreeMap<&'static str, Value>> = Mutex::new(BTreeMap::new());
    let path = PathBuf::from(std::env::var_os("TRAINYARD_UPSTREAM_CRDS")?)
        .join(format!("{}_{}.yaml", kind.group, kind.plural));
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = read.get(kind.name) {
        return Some(known.clone());
    }
    let text = std::fs::read_to_string(path).ok()?;
    let definition: Value = serde_saphyr::from_str(&text).expect("a published definition can be read");
    read.insert(kind.name, definition.clone());
    Some(definition)
}

/// A definition like those of the operator we replace.
pub fn upstream(kind: &Kind) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let replica_spec = json!({
        "type": "object",
        "properties": {
            "replicas": { "type": "integer", "format": "int32" },
            "restartPolicy": { "type": "string" },
            "template": anything,
        },
    });
    let elastic = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let spec = json!({
        "type": "object",
        "required": [kind.replica_specs],
        "properties": {
            kind.replica_specs: { "type": "object", "additionalProperties": replica_spec },
            "runPolicy": run_policy(),
            "successPolicy": { "type": "string" },
            "enableDynamicWorker": { "type": "boolean" },
            "nprocPerNode": { "type": "string" },
            "elasticPolicy": elastic,
        },
    });
    definition(kind, &spec, &status())
}

/// A definition that takes any spec and any status.
pub fn open(kind: &Kind) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    definition(kind, &anything, &anything)
}

fn run_policy() -> Value {
    let queue = json!({
        "type": "string",
        "x-kubernetes-validations": [{
            "rule": "self == oldSelf",
            "message": "spec.runPolicy.schedulingPolicy.queue is immutable",
        }],
    });
    json!({
        "type": "object",
        "properties": {
            "activeDeadlineSeconds": { "type": "integer", "format": "int64" },
            "backoffLimit": { "type": "integer", "format": "int32" },
            "cleanPodPolicy": { "type": "string" },
            "managedBy": { "type": "string" },
            "schedulingPolicy": {
                "type": "object",
                "properties": {
                    "minAvailable": { "type": "integer", "format": "int32" },
                    "queue": queue,
                    "priorityClass": { "type": "string" },
                    "scheduleTimeoutSeconds": { "type": "integer", "format": "int32" },
                },
            },
            "suspend": { "type": "boolean", "default": false },
            "ttlSecondsAfterFinished": { "type": "integer", "format": "int32" },
        },
    })
}

fn status() -> Value {
    let time = json!({ "type": "string", "format": "date-time" });
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer", "format": "int32" });
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": text, "status": text, "reason": text, "message": text,
            "lastUpdateTime": time, "lastTransitionTime": time,
        },
    });
    let replicas = json!({
        "type": "object",
        "properties": { "active": number, "succeeded": number, "failed": number, "selector": text },
    });
    json!({
        "type": "object",
        "properties": {
            "conditions": { "type": "array", "items": condition },
            "replicaStatuses": { "type": "object", "additionalProperties": replicas },
            "startTime": time,
            "completionTime": time,
            "lastReconcileTime": time,
        },
    })
}

fn definition(kind: &Kind, spec: &Value, status: &Value) -> Value {
    let mut subresources = json!({ "status": {} });
    if kind.selector_in_status {
        subresources["scale"] = json!({
            "specReplicasPath": format!(".spec.{}.Worker.replicas", kind.replica_specs),
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        });
    }
    let root = json!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", kind.plural, kind.group) },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": format!("{}List", kind.name),
                "plural": kind.plural,
                "singular": kind.singular,
            },
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": root },
                "subresources": subresources,
            }],
        },
    })
}
