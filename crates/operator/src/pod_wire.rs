//! From the JSON of a pod to a [`PodView`]: the only place that knows what a Pod looks like.

use jiff::Timestamp;
use serde::Deserialize;
use trainyard_core::{ContainerState, ContainerView, End, Kind, Phase, PodView, PortBlock, Waits, WaitsOn};

use crate::wire::Meta;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Meta,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<Box<str>>,
    active_deadline_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<Box<str>>,
    reason: Option<Box<str>>,
    start_time: Option<Timestamp>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<Container>>,
    container_statuses: Option<Vec<Container>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: Box<str>,
    status: Box<str>,
    reason: Option<Box<str>>,
    message: Option<Box<str>>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: Box<str>,
    restart_count: i64,
    state: Option<State>,
    last_state: Option<LastState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LastState {
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<Running>,
    terminated: Option<Terminated>,
    waiting: Option<Waiting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<Box<str>>,
    message: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: Option<Box<str>>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

/// Reads a pod.
pub(crate) fn pod(raw: &str, kinds: &[&'static Kind]) -> Result<(Meta, PodView), serde_json::Error> {
    let pod: Pod = serde_json::from_str(raw)?;
    let meta = pod.metadata.check()?;
    let status = pod.status.unwrap_or_default();
    let labels = meta.labels.as_ref();
    let annotations = meta.annotations.as_ref();
    let spec = pod.spec.unwrap_or_default();
    let phase = status.phase.as_deref().map(Phase::parse).unwrap_or_default();
    let waits = meta.creation_timestamp.filter(|_| phase == Phase::Pending);
    let waits = waits.and_then(|since| Some(Box::new(Waits { since, ..waits_on(&status)? })));
    let (disruption, disrupted) = disruption(status.conditions.unwrap_or_default()).unzip();
    let view = PodView {
        waits,
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        role: labels.and_then(|l| l.role.clone()).unwrap_or_default(),
        index: labels.and_then(|l| l.index.as_deref()?.parse().ok()),
        labelled: meta.is_labelled(kinds),
        attempt: counter(annotations.and_then(|a| a.attempt.as_deref())),
        incarnation: counter(annotations.and_then(|a| a.incarnation.as_deref())),
        used: counter(annotations.and_then(|a| a.used.as_deref())),
        ports: annotations.and_then(|a| PortBlock::parse(a.ports.as_deref()?)),
        created: meta.creation_timestamp,
        taken_on: status.start_time,
        seen_over: None,
        gang: annotations.and_then(|a| a.gang.as_deref()?.parse().ok()),
        phase,
        deleting: meta.asked_to_end(),
        reason: status.reason.filter(|reason| !reason.is_empty()),
        disruption,
        disrupted: disrupted.flatten(),
        containers: containers(status.init_container_statuses, status.container_statuses),
        tracked: meta.is_tracked(),
        active_deadline: spec.active_deadline_seconds,
        node: spec.node_name.filter(|node| !node.is_empty()),
    };
    Ok((meta, view))
}

/// Absent means 0; so does what is no number, because users can write there too.
fn counter(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Why Kubernetes itself ends the pod, and since when.
fn disruption(conditions: Vec<Condition>) -> Option<(Box<str>, Option<Timestamp>)> {
    let target = conditions.into_iter().find(|c| &*c.type_ == "DisruptionTarget" && &*c.status == "True")?;
    Some((target.reason.unwrap_or_default(), target.last_transition_time))
}

/// Why a pod that has not started does not, if its scheduler or its node says so.
fn waits_on(status: &Status) -> Option<Waits> {
    let told = |on, reason: &Option<Box<str>>, message: &Option<Box<str>>| {
        let message = message.as_ref().or(reason.as_ref()).cloned().unwrap_or_default();
        Waits { on, message, since: Timestamp::UNIX_EPOCH }
    };
    let mut conditions = status.conditions.iter().flatten();
    if let Some(place) = conditions.find(|c| &*c.type_ == "PodScheduled" && &*c.status == "False") {
        return Some(told(WaitsOn::Node, &place.reason, &place.message));
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    waiting.find_map(|waiting| {
        let on = needs(waiting.reason.as_deref()?)?;
        Some(told(on, &waiting.reason, &waiting.message))
    })
}

/// What a container that waits with this reason needs; nothing that concerns anybody, of most.
fn needs(reason: &str) -> Option<WaitsOn> {
    match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable" => Some(WaitsOn::Image),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => Some(WaitsOn::Config),
        _ => None,
    }
}

fn containers(init: Option<Vec<Container>>, main: Option<Vec<Container>>) -> Box<[ContainerView]> {
    let init = init.into_iter().flatten().map(|container| container.view(true));
    let main = main.into_iter().flatten().map(|container| container.view(false));
    init.chain(main).collect()
}

impl Container {
    fn view(self, init: bool) -> ContainerView {
        let restarts = u32::try_from(self.restart_count.max(0)).unwrap_or(u32::MAX);
        let last = self.last_state.and_then(|last| last.terminated);
        let last = last.map(|end| Box::new(End { exit: end.exit_code, reason: end.reason }));
        let state = self.state.unwrap_or_default();
        let since = state.running.as_ref().and_then(|running| running.started_at);
        ContainerView { name: self.name, init, state: state.view(), last, restarts, since }
    }
}

impl State {
    fn view(self) -> ContainerState {
        match (self.terminated, self.running, self.waiting) {
            (Some(end), _, _) => ContainerState::Terminated {
                exit: end.exit_code,
                reason: end.reason,
                started: end.started_at,
                finished: end.finished_at,
            },
            (None, Some(Running { .. }), _) => ContainerState::Running,
            (None, None, waiting) => ContainerState::Waiting { reason: waiting.and_then(|w| w.reason) },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trainyard_core::kinds;

    use super::*;

    fn read(object: &Value) -> (Meta, PodView) {
        pod(&object.to_string(), kinds::ALL).unwrap()
    }

    fn with_status(status: Value) -> PodView {
        read(&json!({ "metadata": { "name": "p", "uid": "u" }, "status": status })).1
    }

    #[test]
    fn a_pod_of_a_job_in_full() {
        let (meta, view) = read(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "j-worker-3", "namespace": "ns", "uid": "u1", "resourceVersion": "42",
                "labels": {
                    "training.kubeflow.org/operator-name": "pytorchjob-controller",
                    "training.kubeflow.org/replica-type": "worker",
                    "training.kubeflow.org/replica-index": "3",
                    "mine": "x",
                },
                "annotations": { "trainyard.dev/attempt": "2", "trainyard.dev/incarnation": "x",
                                 "trainyard.dev/gang-size": "4" },
                "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30,
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x" },
                    { "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j", "uid": "ju",
                      "controller": true, "blockOwnerDeletion": true },
                ],
            },
            "spec": { "nodeName": "n1", "containers": [{ "name": "pytorch", "env": [] }] },
            "status": {
                "phase": "Failed", "reason": "Evicted",
                "conditions": [{ "type": "Ready", "status": "False" },
                               { "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet" }],
                "initContainerStatuses": [{ "name": "i", "restartCount": 1, "state": { "running": {} } }],
                "containerStatuses": [{ "name": "pytorch", "restartCount": 2, "state": { "terminated": {
                    "exitCode": 137, "reason": "OOMKilled",
                    "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z" } } }],
            },
        }));
        let owner = meta.owner(kinds::ALL).unwrap();
        assert_eq!((&*owner.uid, owner.key.to_string().as_str()), ("ju", "PyTorchJob ns/j"));
        assert_eq!((&*view.role, view.index, view.labelled), ("worker", Some(3), true));
        assert_eq!((view.attempt, view.incarnation, view.gang), (2, 0, Some(4)));
        assert_eq!(view.deleting, Some("2026-01-01T00:00:00Z".parse().unwrap()), "asked 30 s before the end");
        assert_eq!(view.phase, Phase::Failed);
        assert_eq!(view.disruption.as_deref(), Some("TerminationByKubelet"));
        assert_eq!(view.node.as_deref(), Some("n1"));
        assert_eq!(view.exit_code("pytorch"), Some(137));
        assert!(view.containers[0].init && !view.containers[1].init);
        assert_eq!(view.restarts_in_place(), 3);
    }

    #[test]
    fn what_a_state_means() {
        let state = |state: Value| {
            let view = with_status(
                json!({ "containerStatuses": [{ "name": "c", "state": state, "restartCount": -1 }] }),
            );
            assert_eq!(view.containers[0].restarts, 0);
            view.containers[0].state.clone()
        };
        let waiting = |reason: Option<&str>| ContainerState::Waiting { reason: reason.map(Into::into) };
        assert_eq!(state(Value::Null), waiting(None));
        assert_eq!(state(json!({})), waiting(None));
        assert_eq!(
            state(json!({ "waiting": { "reason": "CrashLoopBackOff" } })),
            waiting(Some("CrashLoopBackOff"))
        );
        assert_eq!(state(json!({ "running": { "startedAt": null } })), ContainerState::Running);
        let ended = state(json!({ "terminated": { "exitCode": 1, "startedAt": null } }));
        assert!(matches!(ended, ContainerState::Terminated { exit: 1, started: None, .. }));
    }

    #[test]
    fn what_is_absent_or_null_has_a_meaning() {
        let (meta, view) = read(&json!({
            "metadata": { "name": "p", "uid": "u", "labels": null, "annotations": null, "ownerReferences": null },
            "spec": null, "status": null,
        }));
        assert!(meta.owner(kinds::ALL).is_none());
        assert_eq!((view.phase, view.labelled, view.index), (Phase::Pending, false, None));
        let (_, view) = read(&json!({ "metadata": { "name": "p", "uid": "u",
            "labels": { "training.kubeflow.org/operator-name": "somebody-else" } } }));
        assert!(!view.labelled);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_guess() {
        for bad in [
            json!({}),
            json!({ "metadata": { "name": "p" } }),
            json!({ "metadata": { "name": "p", "uid": "u", "deletionTimestamp": "yesterday" } }),
            json!({ "metadata": { "name": "p", "uid": "u" }, "status": { "containerStatuses": 7 } }),
        ] {
            assert!(pod(&bad.to_string(), kinds::ALL).is_err(), "{bad}");
        }
    }
}
