//! Deployments: replica sets of their templates, old ones replaced by new ones. What to do is decided in `rollout` and
//! `progress`; here it is seen and done.

use serde_json::{Map, Value, json};
use std::time::Duration;

use super::client::{Actor, Refused, path};
use super::index::Kind;
use super::pods::{Pod, controller_of};
use super::progress::{self, Conditions};
use super::record::{Note, record};
use super::rollout::{self, DESIRED, MAX, REVISION, Set, Step, Wanted};
use super::{Controllers, Look};
use crate::object::{at, is_deleting, meta, set_at};
use crate::selector::LabelSelector;
use crate::store::{Key, Stored};

const ACTOR: Actor = Actor { component: "deployment-controller" };
const HASH: &str = "pod-template-hash";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotations of a deployment that are its own.
const PRIVATE: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
];

pub(super) async fn look(all: &Controllers, stored: &Stored) -> Look {
    let mut deployment = stored.value().map_err(Refused::internal)?;
    let selector = LabelSelector::from_object(at(&deployment, "spec.selector").unwrap_or(&Value::Null))
        .map_err(Refused::internal)?;
    if selector.is_empty() {
        return Ok(None);
    }
    let mut sets = claim(all, &stored.key, &deployment, &selector).await?;
    let mut new = rollout::find_new(&deployment, &sets);
    let now = all.app.now();
    let mut conditions = Conditions::of(&deployment, now);
    let deleting = is_deleting(&deployment);
    let paused = at(&deployment, "spec.paused") == Some(&Value::Bool(true));
    let mut step = Step::Settled;
    if !deleting {
        if at(&deployment, "spec.progressDeadlineSeconds").is_some() {
            conditions.pause(paused);
        }
        if let Some(set) = new.and_then(|index| sets.get_mut(index)) {
            align(all, &deployment, set, max_revision_but(stored, all, set)).await?;
        }
        step = rollout::step(&deployment, &sets, new, has_old_pods(all, &sets, new));
        new = act(all, &mut deployment, &mut sets, new, &step, &mut conditions).await?;
    }
    let rolling = !deleting && !paused;
    let status = progress::status(&deployment, &sets, new, conditions, rolling, now);
    let revision = new.and_then(|index| sets.get(index)).map(|set| set.annotation(REVISION).to_owned());
    if step == Step::Settled && (paused || progress::is_complete(&deployment, &status)) && !deleting {
        forget(all, &deployment, &sets, new).await?;
    }
    write(all, &deployment, status, revision.as_deref()).await?;
    let left = progress::time_left(&deployment, &Conditions::of(&deployment, now), now);
    // Whole seconds: late by less than one.
    Ok(left.filter(|left| *left >= 0 && rolling).map(|left| Duration::from_secs(left.unsigned_abs() + 1)))
}

/// The highest revision among the other sets.
fn max_revision_but(deployment: &Stored, all: &Controllers, set: &Set) -> i64 {
    let others = all.index.children(&deployment.uid).filter(|key| key.name() != set.name());
    let stored = others.filter_map(|key| all.app.store.get(key));
    let sets = stored.filter_map(|stored| stored.value().ok()).map(Set::new);
    sets.map(|set| set.revision()).max().unwrap_or(0)
}

/// The replica sets of a deployment, after adopting those it selects and letting go those it no longer does.
async fn claim(
    all: &Controllers,
    key: &Key,
    deployment: &Value,
    selector: &LabelSelector,
) -> Result<Vec<Set>, Refused> {
    let uid = meta(deployment, "uid");
    let stored = |key| all.app.store.get(key).filter(|stored| &**stored.key.table() == "apps/replicasets");
    let labels = |object: &Value| object.pointer("/metadata/labels").and_then(Value::as_object).cloned();
    let mut sets = Vec::new();
    for object in all.index.children(uid).filter_map(stored).filter_map(|stored| stored.value().ok()) {
        if selector.matches(labels(&object).as_ref()) {
            sets.push(Set::new(object));
        } else if !is_deleting(deployment) {
            own(all, &object, json!([])).await?;
        }
    }
    if is_deleting(deployment) {
        return Ok(sets);
    }
    let orphans = all.index.orphans(Kind::Deployment, key).filter_map(stored);
    for object in orphans.filter_map(|stored| stored.value().ok()) {
        if !is_deleting(&object) && selector.matches(labels(&object).as_ref()) {
            let adopted = own(all, &object, json!([controller_of(deployment)])).await?;
            sets.push(Set::new(adopted));
        }
    }
    Ok(sets)
}

async fn own(all: &Controllers, set: &Value, owners: Value) -> Result<Value, Refused> {
    let patch = json!({"metadata": {"uid": meta(set, "uid"), "ownerReferences": owners}});
    all.client.patch(ACTOR, &place(set), &patch).await
}

fn place(set: &Value) -> String {
    path("apps/v1", meta(set, "namespace"), "replicasets", meta(set, "name"))
}

fn has_old_pods(all: &Controllers, sets: &[Set], new: Option<usize>) -> bool {
    let old = sets.iter().enumerate().filter(|(index, _)| Some(*index) != new);
    let keys = old.flat_map(|(_, set)| all.index.children(meta(&set.object, "uid")));
    let pods = keys.filter_map(|key| all.app.store.get(key)).filter_map(|stored| Pod::of(&stored));
    pods.into_iter().any(|pod| !pod.is_over())
}

/// Keeps the annotations of the current set up to date, and its revision the highest.
async fn align(all: &Controllers, deployment: &Value, set: &mut Set, others: i64) -> Result<(), Refused> {
    let known =
        at(&set.object, "metadata.annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut wanted = known.clone();
    inherit(deployment, &mut wanted);
    if set.revision() <= others {
        let before = set.annotation(REVISION);
        if !before.is_empty() {
            let history = set.annotation(HISTORY);
            let comma = if history.is_empty() { "" } else { "," };
            wanted.insert(HISTORY.into(), format!("{history}{comma}{before}").into());
        }
        wanted.insert(REVISION.into(), (others + 1).to_string().into());
    }
    let ready = |object: &Value| at(object, "spec.minReadySeconds").and_then(Value::as_i64).unwrap_or(0);
    if wanted == known && ready(&set.object) == ready(deployment) {
        return Ok(());
    }
    let mut object = set.object.clone();
    set_at(&mut object, &["metadata".into(), "annotations".into()], wanted.into());
    set_at(&mut object, &["spec".into(), "minReadySeconds".into()], ready(deployment).into());
    *set = Set::new(all.client.update(ACTOR, &place(&set.object), &object).await?);
    Ok(())
}

fn inherit(deployment: &Value, annotations: &mut Map<String, Value>) {
    let given = at(deployment, "metadata.annotations").and_then(Value::as_object);
    for (name, value) in given.into_iter().flatten().filter(|(name, _)| !PRIVATE.contains(&name.as_str())) {
        annotations.insert(name.clone(), value.clone());
    }
}

/// Does a step. Returns which set is the current one.
async fn act(
    all: &Controllers,
    deployment: &mut Value,
    sets: &mut Vec<Set>,
    new: Option<usize>,
    step: &Step,
    conditions: &mut Conditions,
) -> Result<Option<usize>, Refused> {
    match step {
        Step::Settled => Ok(new),
        Step::Scale(sizes) => {
            for (index, size) in sizes {
                if let Some(set) = sets.get_mut(*index) {
                    scale(all, deployment, set, *size).await?;
                }
            }
            Ok(new)
        }
        Step::Create(size) => {
            let set = create(all, deployment, sets, *size, conditions).await?;
            sets.push(set);
            Ok(Some(sets.len() - 1))
        }
    }
}

/// How large a deployment and all its sets together may be, for whoever shares out a new size.
fn sizes(deployment: &Value) -> [(&'static str, String); 2] {
    let wanted = Wanted::of(deployment);
    [(DESIRED, wanted.replicas.to_string()), (MAX, (wanted.replicas + wanted.surge).to_string())]
}

async fn scale(all: &Controllers, deployment: &Value, set: &mut Set, size: i64) -> Result<(), Refused> {
    let before = set.replicas;
    let sizes = sizes(deployment);
    if before == size && sizes.iter().all(|(name, value)| set.annotation(name) == value) {
        return Ok(());
    }
    let mut object = set.object.clone();
    set_at(&mut object, &["spec".into(), "replicas".into()], size.into());
    for (name, value) in sizes {
        set_at(&mut object, &["metadata".into(), "annotations".into(), name.into()], value.into());
    }
    *set = Set::new(all.client.update(ACTOR, &place(&set.object), &object).await?);
    if before != size {
        let way = if before < size { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {} from {before} to {size}", set.name());
        let note = Note::normal("ScalingReplicaSet", message);
        record(&all.client, ACTOR, deployment, &note, all.app.now()).await;
    }
    Ok(())
}

async fn create(
    all: &Controllers,
    deployment: &mut Value,
    sets: &[Set],
    size: i64,
    conditions: &mut Conditions,
) -> Result<Set, Refused> {
    let object = new_set(deployment, sets, size);
    let name = meta(&object, "name").to_owned();
    let sets_path = path("apps/v1", meta(deployment, "namespace"), "replicasets", "");
    let has_deadline = at(deployment, "spec.progressDeadlineSeconds").is_some();
    match all.client.create(ACTOR, &sets_path, &object).await {
        Ok(created) => {
            if size > 0 {
                let note = Note::normal(
                    "ScalingReplicaSet",
                    format!("Scaled up replica set {name} from 0 to {size}"),
                );
                record(&all.client, ACTOR, deployment, &note, all.app.now()).await;
            }
            if has_deadline {
                let message = format!("Created new replica set {name:?}");
                conditions.set("Progressing", "True", "NewReplicaSetCreated", &message);
            }
            Ok(Set::new(created))
        }
        Err(refused) if refused.reason == "AlreadyExists" => {
            // Two templates with one hash: the next try takes another.
            let count = at(deployment, "status.collisionCount").and_then(Value::as_i64).unwrap_or(0);
            set_at(deployment, &["status".into(), "collisionCount".into()], (count + 1).into());
            put_status(all, deployment).await?;
            Err(refused)
        }
        Err(refused) => {
            if !refused.is_terminating() {
                let message = format!("Failed to create new replica set {name:?}: {refused}");
                let note = Note::warning("ReplicaSetCreateError", message);
                record(&all.client, ACTOR, deployment, &note, all.app.now()).await;
            }
            Err(refused)
        }
    }
}

fn new_set(deployment: &Value, sets: &[Set], size: i64) -> Value {
    let collisions = at(deployment, "status.collisionCount").and_then(Value::as_i64).unwrap_or(0);
    let mut template = at(deployment, "spec.template").cloned().unwrap_or_default();
    let hash = rollout::hash(&template, collisions);
    set_at(&mut template, &["metadata".into(), "labels".into(), HASH.into()], hash.as_str().into());
    let mut selector = at(deployment, "spec.selector").cloned().unwrap_or_default();
    set_at(&mut selector, &["matchLabels".into(), HASH.into()], hash.as_str().into());
    let mut annotations = Map::new();
    inherit(deployment, &mut annotations);
    let revision = sets.iter().map(Set::revision).max().unwrap_or(0) + 1;
    annotations.insert(REVISION.into(), revision.to_string().into());
    for (name, value) in sizes(deployment) {
        annotations.insert(name.into(), value.into());
    }
    let room = 253 - hash.len() - 1;
    let name: String = meta(deployment, "name").chars().take(room).collect();
    let mut spec = json!({"replicas": size, "selector": selector, "template": template});
    if let Some(seconds) = at(deployment, "spec.minReadySeconds") {
        set_at(&mut spec, &["minReadySeconds".into()], seconds.clone());
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{name}-{hash}"), "namespace": meta(deployment, "namespace"),
            "labels": at(&template, "metadata.labels"), "annotations": annotations,
            "ownerReferences": [controller_of(deployment)],
        },
        "spec": spec,
    })
}

async fn forget(
    all: &Controllers,
    deployment: &Value,
    sets: &[Set],
    new: Option<usize>,
) -> Result<(), Refused> {
    for set in rollout::forgotten(deployment, sets, new) {
        let uid = meta(&set.object, "uid");
        all.client.delete(ACTOR, &place(&set.object), uid, "Background").await?;
    }
    Ok(())
}

/// Writes status and revision, if they are news.
async fn write(
    all: &Controllers,
    deployment: &Value,
    status: Value,
    revision: Option<&str>,
) -> Result<(), Refused> {
    let mut wanted = deployment.clone();
    set_at(&mut wanted, &["status".into()], status);
    if let Some(revision) = revision.filter(|revision| !revision.is_empty()) {
        set_at(&mut wanted, &["metadata".into(), "annotations".into(), REVISION.into()], revision.into());
    }
    if wanted != *deployment { put_status(all, &wanted).await } else { Ok(()) }
}

async fn put_status(all: &Controllers, deployment: &Value) -> Result<(), Refused> {
    let place = path("apps/v1", meta(deployment, "namespace"), "deployments", meta(deployment, "name"));
    all.client.update(ACTOR, &format!("{place}/status"), deployment).await.map(|_| ())
}
