//! The status of a deployment: counts, and whether a rollout gets on.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::rollout::{Set, Wanted};
use crate::object::{at, meta, time};

fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// A deployment's conditions while they are worked on.
pub(super) struct Conditions {
    list: Vec<Value>,
    now: String,
}

impl Conditions {
    pub(super) fn of(deployment: &Value, now: Timestamp) -> Self {
        let list = at(deployment, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { list, now: time(now) }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.list.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(name))
    }

    fn reason(&self, name: &str) -> &str {
        self.get(name).and_then(|c| c.get("reason")).and_then(Value::as_str).unwrap_or_default()
    }

    fn remove(&mut self, name: &str) {
        self.list.retain(|c| c.get("type").and_then(Value::as_str) != Some(name));
    }

    /// Sets a condition unless it says the same already.
    pub(super) fn set(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let same = |c: &Value, field: &str, text: &str| c.get(field).and_then(Value::as_str) == Some(text);
        if !self.get(name).is_some_and(|c| same(c, "status", status) && same(c, "reason", reason)) {
            self.renew(name, status, reason, message);
        }
    }

    /// Sets a condition though it may say the same: its time is news.
    fn renew(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let since = self
            .get(name)
            .filter(|c| c.get("status").and_then(Value::as_str) == Some(status))
            .and_then(|c| c.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| self.now.clone().into());
        self.remove(name);
        self.list.push(json!({
            "type": name, "status": status, "lastUpdateTime": self.now, "lastTransitionTime": since,
            "reason": reason, "message": message,
        }));
    }

    /// Notes that a deployment was paused or goes on.
    pub(super) fn pause(&mut self, paused: bool) {
        let noted = self.reason("Progressing") == "DeploymentPaused";
        if self.reason("Progressing") == "ProgressDeadlineExceeded" {
            return;
        }
        if paused && !noted {
            self.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused");
        } else if !paused && noted {
            self.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed");
        }
    }
}

/// The counts of a status.
fn counts(deployment: &Value, sets: &[Set], new: Option<usize>) -> Map<String, Value> {
    let sum = |path: &str| sets.iter().map(|set| number(&set.object, path)).sum::<i64>();
    let available: i64 = sets.iter().map(|set| set.available).sum();
    let wanted: i64 = sets.iter().map(|set| set.replicas).sum();
    let mut status = Map::new();
    if let Some(generation) = at(deployment, "metadata.generation") {
        status.insert("observedGeneration".into(), generation.clone());
    }
    for (field, count) in [
        ("replicas", sets.iter().map(|set| set.actual).sum()),
        ("updatedReplicas", new.and_then(|index| sets.get(index)).map_or(0, |set| set.actual)),
        ("readyReplicas", sum("status.readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted - available).max(0)),
    ] {
        if count > 0 {
            status.insert(field.into(), count.into());
        }
    }
    status.insert("terminatingReplicas".into(), sum("status.terminatingReplicas").into());
    if let Some(count) = at(deployment, "status.collisionCount") {
        status.insert("collisionCount".into(), count.clone());
    }
    status
}

/// The new status. `rolling` when this look moved a rollout on, and not a size.
pub(super) fn status(
    deployment: &Value,
    sets: &[Set],
    new: Option<usize>,
    mut conditions: Conditions,
    rolling: bool,
    now: Timestamp,
) -> Value {
    let wanted = Wanted::of(deployment);
    let mut status = counts(deployment, sets, new);
    let available: i64 = sets.iter().map(|set| set.available).sum();
    if available >= wanted.replicas - wanted.unavailable {
        let message = "Deployment has minimum availability.";
        conditions.set("Available", "True", "MinimumReplicasAvailable", message);
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
    if rolling {
        let name = new.and_then(|index| sets.get(index)).map(Set::name);
        progress(deployment, &status, name, &mut conditions, now);
        match failure(sets, new) {
            Some(condition) => {
                let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
                conditions.set("ReplicaFailure", text("status"), text("reason"), text("message"));
            }
            None => conditions.remove("ReplicaFailure"),
        }
    }
    status.insert("conditions".into(), conditions.list.into());
    status.into()
}

fn failure(sets: &[Set], new: Option<usize>) -> Option<&Value> {
    let of = |set: &'_ Set| -> Option<usize> {
        let list = at(&set.object, "status.conditions")?.as_array()?;
        list.iter().position(|c| c.get("type").and_then(Value::as_str) == Some("ReplicaFailure"))
    };
    let first = new.and_then(|index| sets.get(index)).into_iter().chain(sets);
    first.filter_map(|set| at(&set.object, "status.conditions")?.get(of(set)?)).next()
}

/// Whether everything is as the deployment wants it.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = Wanted::of(deployment).replicas;
    let all = ["updatedReplicas", "replicas", "availableReplicas"];
    all.iter().all(|field| number(status, field) == wanted)
        && number(status, "observedGeneration") >= number(deployment, "metadata.generation")
}

fn deadline(deployment: &Value) -> Option<i64> {
    let seconds = at(deployment, "spec.progressDeadlineSeconds").and_then(Value::as_i64)?;
    (seconds != i64::from(i32::MAX)).then_some(seconds)
}

fn progress(
    deployment: &Value,
    status: &Map<String, Value>,
    new: Option<&str>,
    conditions: &mut Conditions,
    now: Timestamp,
) {
    const NAME: &str = "Progressing";
    if deadline(deployment).is_none() {
        conditions.remove(NAME);
        return;
    }
    let status = Value::Object(status.clone());
    let is_done = conditions.reason(NAME) == "NewReplicaSetAvailable"
        && number(&status, "replicas") == number(&status, "updatedReplicas");
    if is_done {
        return;
    }
    let what = match new {
        Some(name) => format!("ReplicaSet {name:?}"),
        None => format!("Deployment {:?}", meta(deployment, "name")),
    };
    if is_complete(deployment, &status) {
        let message = format!("{what} has successfully progressed.");
        conditions.set(NAME, "True", "NewReplicaSetAvailable", &message);
    } else if has_moved(deployment, &status) {
        conditions.renew(NAME, "True", "ReplicaSetUpdated", &format!("{what} is progressing."));
    } else if time_left(deployment, conditions, now).is_some_and(|left| left < 0) {
        let message = format!("{what} has timed out progressing.");
        conditions.set(NAME, "False", "ProgressDeadlineExceeded", &message);
    }
}

fn has_moved(deployment: &Value, status: &Value) -> bool {
    let before = at(deployment, "status").cloned().unwrap_or_default();
    let old = |s: &Value| number(s, "replicas") - number(s, "updatedReplicas");
    let grown = |field: &str| number(status, field) > number(&before, field);
    grown("updatedReplicas")
        || old(status) < old(&before)
        || grown("readyReplicas")
        || grown("availableReplicas")
}

/// The seconds a rollout has before it counts as stuck; nothing when nobody waits for it.
pub(super) fn time_left(deployment: &Value, conditions: &Conditions, now: Timestamp) -> Option<i64> {
    let seconds = deadline(deployment)?;
    let condition = conditions.get("Progressing")?;
    if ["NewReplicaSetAvailable", "DeploymentPaused"].contains(&conditions.reason("Progressing")) {
        return None;
    }
    let since: Timestamp = condition.get("lastUpdateTime")?.as_str()?.parse().ok()?;
    Some(since.as_second() + seconds - now.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:20:00Z";

    fn deployment(status: Value) -> Value {
        json!({"metadata": {"name": "d", "generation": 1}, "status": status,
            "spec": {"replicas": 1, "progressDeadlineSeconds": 600,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}})
    }

    fn set(available: i64) -> Set {
        Set::new(json!({"metadata": {"name": "d-1"}, "spec": {"replicas": 1},
            "status": {"replicas": 1, "availableReplicas": available, "readyReplicas": available}}))
    }

    fn reasons(status: Value, sets: &[Set]) -> Vec<String> {
        let d = deployment(status);
        let now: Timestamp = NOW.parse().unwrap();
        let status = super::status(&d, sets, Some(0), Conditions::of(&d, now), true, now);
        let list = status["conditions"].as_array().unwrap().clone();
        list.iter()
            .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["reason"].as_str().unwrap()))
            .collect()
    }

    #[test]
    fn a_rollout_progresses_completes_or_gets_stuck() {
        let since = |minutes: u32| {
            json!({"replicas": 1, "updatedReplicas": 1, "conditions": [{"type": "Progressing", "status": "True",
                "reason": "ReplicaSetUpdated", "lastUpdateTime": format!("2026-01-01T00:{minutes:02}:00Z")}]})
        };
        let unavailable = "Available=MinimumReplicasUnavailable";
        assert_eq!(reasons(json!({}), &[set(0)]), [unavailable, "Progressing=ReplicaSetUpdated"]);
        assert_eq!(reasons(since(15), &[set(0)]), ["Progressing=ReplicaSetUpdated", unavailable]);
        assert_eq!(reasons(since(5), &[set(0)]), [unavailable, "Progressing=ProgressDeadlineExceeded"]);
        let available = "Available=MinimumReplicasAvailable";
        assert_eq!(reasons(since(15), &[set(1)]), [available, "Progressing=NewReplicaSetAvailable"]);
    }

    #[test]
    fn pausing_is_noted_once() {
        let d = deployment(json!({}));
        let mut conditions = Conditions::of(&d, NOW.parse().unwrap());
        conditions.pause(true);
        assert_eq!(conditions.reason("Progressing"), "DeploymentPaused");
        conditions.pause(false);
        assert_eq!(conditions.reason("Progressing"), "DeploymentResumed");
        conditions.pause(false);
        assert_eq!(conditions.list.len(), 1);
    }
}
