//! Replica sets: as many pods of a template as are wanted.

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Duration;

use super::client::{Actor, Refused, path};
use super::index::Kind;
use super::pods::{self, Pod};
use super::{Controllers, Look};
use crate::object::{at, is_deleting, meta, time};
use crate::selector::LabelSelector;
use crate::store::Stored;

const ACTOR: Actor = Actor { component: "replicaset-controller" };
/// Pods created or deleted in one look.
const BURST: usize = 500;

fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) async fn look(all: &Controllers, stored: &Stored) -> Look {
    let set = stored.value().map_err(Refused::internal)?;
    let selector = LabelSelector::from_object(at(&set, "spec.selector").unwrap_or(&Value::Null))
        .map_err(Refused::internal)?;
    if selector.is_empty() {
        return Ok(None);
    }
    let pods = pods::claim(all, ACTOR, (Kind::ReplicaSet, &stored.key), &set, &selector).await?;
    let mut failure = None;
    if !is_deleting(&set) {
        failure = manage(all, &set, &pods).await.err();
    }
    let now = all.app.now();
    let status = status(&set, &pods, failure.as_ref(), now);
    if set.get("status") != Some(&status) {
        let mut new = set.clone();
        if let Some(map) = new.as_object_mut() {
            map.insert("status".into(), status.clone());
        }
        let place = path("apps/v1", meta(&set, "namespace"), "replicasets", meta(&set, "name"));
        all.client.update(ACTOR, &format!("{place}/status"), &new).await?;
    }
    match failure {
        Some(refused) if !refused.is_terminating() => Err(refused),
        _ => Ok(next_available(&set, &pods, now)),
    }
}

/// Pods become available by the clock: when the next one does.
fn next_available(set: &Value, pods: &[Pod], now: Timestamp) -> Option<Duration> {
    let seconds = number(set, "spec.minReadySeconds");
    let ready = pods.iter().filter(|pod| pod.is_active()).filter_map(Pod::ready_since);
    let left = ready.map(|since| since.as_second() + seconds - now.as_second()).filter(|left| *left > 0);
    left.min().map(|left| Duration::from_secs(left.unsigned_abs()))
}

/// Makes pods, or removes some.
async fn manage(all: &Controllers, set: &Value, pods: &[Pod]) -> Result<(), Refused> {
    let active: Vec<&Pod> = pods.iter().filter(|pod| pod.is_active()).collect();
    let wanted = usize::try_from(number(set, "spec.replicas")).unwrap_or(0);
    if active.len() < wanted && makes_its_own(set) {
        let missing = (wanted - active.len()).min(BURST);
        let pod = pods::from_template(set, at(set, "spec.template").unwrap_or(&Value::Null));
        // One first: when the template is refused, it is refused once.
        pods::create(all, ACTOR, set, &pod).await?;
        let rest = (1..missing).map(|_| pods::create(all, ACTOR, set, &pod));
        for created in join_all(rest).await {
            created?;
        }
        return Ok(());
    }
    let surplus = surplus(active, wanted);
    let deletions = surplus.iter().take(BURST).map(|pod| pods::delete(all, ACTOR, set, pod));
    for deleted in join_all(deletions).await {
        deleted?;
    }
    Ok(())
}

/// Whether the pods of the template would be found again: otherwise there would be no end of making them.
fn makes_its_own(set: &Value) -> bool {
    let selector = LabelSelector::from_object(at(set, "spec.selector").unwrap_or(&Value::Null));
    let labels = at(set, "spec.template.metadata.labels").and_then(Value::as_object);
    selector.is_ok_and(|selector| selector.matches(labels))
}

/// The pods to delete, in order.
fn surplus(mut active: Vec<&Pod>, wanted: usize) -> Vec<&Pod> {
    let mut nodes: HashMap<&str, i64> = HashMap::new();
    for pod in &active {
        *nodes.entry(pod.spec.node_name.as_str()).or_default() += 1;
    }
    active.sort_by_cached_key(|pod| pod.rank(nodes.get(pod.spec.node_name.as_str()).copied().unwrap_or(0)));
    let count = active.len().saturating_sub(wanted);
    active.truncate(count);
    active
}

fn status(set: &Value, pods: &[Pod], failure: Option<&Refused>, now: Timestamp) -> Value {
    let labels = at(set, "spec.template.metadata.labels").and_then(Value::as_object);
    let min_ready = number(set, "spec.minReadySeconds");
    let active = || pods.iter().filter(|pod| pod.is_active());
    let is_labeled = |pod: &&Pod| {
        labels.is_none_or(|labels| labels.iter().all(|(k, v)| pod.metadata.labels.get(k) == Some(v)))
    };
    let is_available = |pod: &&Pod| {
        pod.ready_since()
            .is_some_and(|since| min_ready == 0 || now.as_second() - since.as_second() >= min_ready)
    };
    let mut status = Map::new();
    status.insert("replicas".into(), active().count().into());
    for (field, count) in [
        ("fullyLabeledReplicas", active().filter(is_labeled).count()),
        ("readyReplicas", active().filter(|pod| pod.is_ready()).count()),
        ("availableReplicas", active().filter(is_available).count()),
    ] {
        if count > 0 {
            status.insert(field.into(), count.into());
        }
    }
    let terminating = pods.iter().filter(|pod| pod.is_deleting() && !pod.is_over()).count();
    status.insert("terminatingReplicas".into(), terminating.into());
    if let Some(generation) = at(set, "metadata.generation") {
        status.insert("observedGeneration".into(), generation.clone());
    }
    let conditions = conditions(set, failure, now);
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    status.into()
}

/// The one condition of replica sets says why pods could not be made.
fn conditions(set: &Value, failure: Option<&Refused>, now: Timestamp) -> Vec<Value> {
    let known = at(set, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_failure =
        |condition: &Value| condition.get("type").and_then(Value::as_str) == Some("ReplicaFailure");
    match failure {
        None => known.into_iter().filter(|condition| !is_failure(condition)).collect(),
        Some(_) if known.iter().any(is_failure) => known,
        Some(refused) => {
            let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": refused.message, "lastTransitionTime": time(now)});
            known.into_iter().chain([condition]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready: bool, created: &str) -> Pod {
        let status = if ready { "True" } else { "False" };
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created}, "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_least_useful_pods_go_first() {
        let pods = [
            pod("ready", "a", "Running", true, "2026-01-01T00:00:00Z"),
            pod("new", "b", "Running", true, "2026-01-01T00:00:01Z"),
            pod("starting", "b", "Running", false, "2026-01-01T00:00:00Z"),
            pod("pending", "c", "Pending", false, "2026-01-01T00:00:00Z"),
            pod("unplaced", "", "Pending", false, "2026-01-01T00:00:00Z"),
        ];
        let names = |wanted| {
            surplus(pods.iter().collect(), wanted)
                .iter()
                .map(|p| p.metadata.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["unplaced", "pending", "starting", "new", "ready"]);
        assert_eq!(names(3), ["unplaced", "pending"]);
        assert!(names(9).is_empty());
    }

    #[test]
    fn available_is_ready_long_enough() {
        let set = json!({"metadata": {"generation": 2}, "spec": {"minReadySeconds": 10}});
        let pods = [pod("a", "n", "Running", true, "2026-01-01T00:00:00Z")];
        let at = |text: &str| status(&set, &pods, None, text.parse().unwrap());
        assert!(at("2026-01-01T00:00:09Z").get("availableReplicas").is_none());
        assert_eq!(at("2026-01-01T00:00:10Z")["availableReplicas"], 1);
        assert_eq!(at("2026-01-01T00:00:10Z")["observedGeneration"], 2);
    }
}
