//! Pods as controllers see them: a few facts of each, and how one is made from a template.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

use super::Controllers;
use super::client::{Actor, Refused, path};
use super::index::Kind;
use super::record::{Note, record};
use crate::object::{is_deleting, meta};
use crate::selector::LabelSelector;
use crate::store::{Key, Stored};

/// What is read of a pod; the rest of its text is skipped.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: PodMeta,
    #[serde(default)]
    pub(super) spec: PodSpec,
    #[serde(default)]
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodMeta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) creation_timestamp: String,
    pub(super) deletion_timestamp: Option<Timestamp>,
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
    pub(super) finalizers: Vec<String>,
    pub(super) owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnerReference {
    pub(super) uid: String,
    pub(super) controller: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: String,
    pub(super) hostname: String,
    pub(super) subdomain: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: String,
    pub(super) conditions: Vec<PodCondition>,
    pub(super) container_statuses: Vec<ContainerStatus>,
    pub(super) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodCondition {
    pub(super) r#type: String,
    pub(super) status: String,
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) restart_count: i64,
    pub(super) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i64,
    pub(super) finished_at: Option<Timestamp>,
}

impl Pod {
    pub(super) fn of(stored: &Stored) -> Option<Self> {
        serde_json::from_slice(&stored.bytes).ok()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.status.phase.as_str())
    }

    /// Neither over nor about to be.
    pub(super) fn is_active(&self) -> bool {
        !self.is_over() && !self.is_deleting()
    }

    fn condition(&self, name: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.r#type == name)
    }

    /// Since when it is ready, if it is.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|condition| condition.status == "True")?;
        Some(ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready_since().is_some()
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.metadata.finalizers.iter().any(|finalizer| finalizer == name)
    }

    pub(super) fn annotation(&self, name: &str) -> &str {
        self.metadata.annotations.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn restarts(&self) -> i64 {
        self.status.container_statuses.iter().map(|status| status.restart_count).sum()
    }

    pub(super) fn path(&self) -> String {
        path("v1", &self.metadata.namespace, "pods", &self.metadata.name)
    }

    /// What goes first when there are too many, smallest first: what did least and would be missed least.
    pub(super) fn rank(&self, crowded: i64) -> impl Ord + use<> {
        let phase = match self.status.phase.as_str() {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i64 = self.annotation("controller.kubernetes.io/pod-deletion-cost").parse().unwrap_or(0);
        (
            !self.spec.node_name.is_empty(),
            phase,
            self.is_ready(),
            cost,
            Reverse(crowded),
            Reverse(self.ready_since()),
            Reverse(self.restarts()),
            Reverse(self.metadata.creation_timestamp.clone()),
        )
    }
}

/// Pods that belong to an owner, after adopting those it selects and letting go those it no longer does.
pub(super) async fn claim(
    all: &Controllers,
    actor: Actor,
    (kind, key): (Kind, &Key),
    owner: &Value,
    selector: &LabelSelector,
) -> Result<Vec<Pod>, Refused> {
    let uid = meta(owner, "uid");
    let stored = |key| all.app.store.get(key).filter(|stored| &**stored.key.table() == "/pods");
    let mut pods = Vec::new();
    for pod in all.index.children(uid).filter_map(stored).filter_map(|stored| Pod::of(&stored)) {
        let controlled = pod.metadata.owner_references.iter().any(|r| r.controller && r.uid == uid);
        if !controlled {
            continue;
        }
        if selector.matches(Some(&pod.metadata.labels)) {
            pods.push(pod);
        } else if !pod.is_deleting() && !is_deleting(owner) {
            release(all, actor, uid, &pod).await?;
        }
    }
    if is_deleting(owner) {
        return Ok(pods);
    }
    let orphans = all.index.orphans(kind, key).filter_map(stored);
    for pod in orphans.filter_map(|stored| Pod::of(&stored)) {
        if pod.is_active() && selector.matches(Some(&pod.metadata.labels)) {
            adopt(all, actor, owner, &pod).await?;
            pods.push(pod);
        }
    }
    Ok(pods)
}

async fn adopt(all: &Controllers, actor: Actor, owner: &Value, pod: &Pod) -> Result<(), Refused> {
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "ownerReferences": [controller_of(owner)]}});
    all.client.patch(actor, &pod.path(), &patch).await.map(|_| ())
}

async fn release(all: &Controllers, actor: Actor, owner: &str, pod: &Pod) -> Result<(), Refused> {
    let Some(stored) =
        all.app.store.get(&Key::new(&"/pods".into(), &pod.metadata.namespace, &pod.metadata.name))
    else {
        return Ok(());
    };
    let object = stored.value().map_err(Refused::internal)?;
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let kept: Vec<&Value> = references
        .into_iter()
        .flatten()
        .filter(|reference| reference.get("uid").and_then(Value::as_str) != Some(owner))
        .collect();
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "ownerReferences": kept}});
    all.client.patch(actor, &pod.path(), &patch).await.map(|_| ())
}

/// The reference of a dependent to its controller.
pub(super) fn controller_of(owner: &Value) -> Value {
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    json!({
        "apiVersion": text("apiVersion"), "kind": text("kind"), "name": meta(owner, "name"),
        "uid": meta(owner, "uid"), "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod of a template, to be created.
pub(super) fn from_template(owner: &Value, template: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.get("metadata").and_then(|m| m.get(field)) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.insert("generateName".into(), format!("{}-", meta(owner, "name")).into());
    metadata.insert("namespace".into(), meta(owner, "namespace").into());
    metadata.insert("ownerReferences".into(), json!([controller_of(owner)]));
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Creates a pod and says so.
pub(super) async fn create(
    all: &Controllers,
    actor: Actor,
    owner: &Value,
    pod: &Value,
) -> Result<Value, Refused> {
    let now = all.app.now();
    let pods = path("v1", meta(owner, "namespace"), "pods", "");
    match all.client.create(actor, &pods, pod).await {
        Ok(created) => {
            let note = Note::normal("SuccessfulCreate", format!("Created pod: {}", meta(&created, "name")));
            record(&all.client, actor, owner, &note, now).await;
            Ok(created)
        }
        Err(refused) => {
            if !refused.is_terminating() {
                let note = Note::warning("FailedCreate", format!("Error creating: {refused}"));
                record(&all.client, actor, owner, &note, now).await;
            }
            Err(refused)
        }
    }
}

/// Deletes a pod and says so.
pub(super) async fn delete(all: &Controllers, actor: Actor, owner: &Value, pod: &Pod) -> Result<(), Refused> {
    let now = all.app.now();
    let name = &pod.metadata.name;
    let deleted = all.client.delete(actor, &pod.path(), &pod.metadata.uid, "Background").await;
    let note = match &deleted {
        Ok(()) => Note::normal("SuccessfulDelete", format!("Deleted pod: {name}")),
        Err(refused) => Note::warning("FailedDelete", format!("Error deleting: {refused}")),
    };
    record(&all.client, actor, owner, &note, now).await;
    deleted
}
