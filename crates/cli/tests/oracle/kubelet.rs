//! Carries out the steps of a case: a kubelet and a person at the keyboard, both of whom do what the script says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trainyard_testkit::rest::{Rest, code, name, text};

use crate::api::{collection_of, items, pods as pods_of};
use crate::case::Case;
use crate::script::{Action, Change, Step};

/// Nothing takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// Between two looks at something that is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// Where pods run.
pub(crate) const NODE: &str = "node-1";
/// When everything happened that a pod's status dates.
const LONG_AGO: &str = "2026-01-02T03:04:05Z";

/// Creates the job and what has to be there before it; what the server says if it refuses.
pub(crate) async fn create(rest: &Rest, case: &Case) -> Option<String> {
    let namespace = case.setting.namespace();
    for object in &case.others {
        rest.post(&collection_of(object, namespace), object).await.unwrap();
    }
    match rest.post(&collection_of(&case.job, namespace), &case.job).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("{}: {error}", case.name),
    }
}

/// Does one step; what of it could not be done is told, for one side may lack what the other has.
pub(crate) async fn perform(rest: &Rest, case: &Case, step: &Step) -> Vec<String> {
    let mut told = Vec::new();
    for action in &step.actions {
        if let Err(problem) = act(rest, case, action).await {
            told.push(problem);
        }
    }
    told
}

/// Ends the pods that were asked to end, but for those that a script holds; whether there were any.
pub(crate) async fn finish(rest: &Rest, namespace: &str, held: &BTreeSet<String>) -> bool {
    let mut any = false;
    for pod in items(rest, &pods_of(namespace)).await {
        let asked = pod.pointer("/metadata/deletionTimestamp").is_some();
        if asked && !held.contains(name(&pod)) {
            any = true;
            let path = format!("{}/{}", pods_of(namespace), name(&pod));
            match rest.delete(&path, &json!({ "gracePeriodSeconds": 0 })).await {
                Err(error) if code(&error) != 404 => panic!("{path}: {error}"),
                _ => {}
            }
        }
    }
    any
}

/// The pods that a step asks to end and leaves there, and those that it lets go.
pub(crate) fn hold(case: &Case, step: &Step, held: &mut BTreeSet<String>) {
    for action in &step.actions {
        let Action::Pods(names, change) = action else { continue };
        let names = names.iter().map(|short| format!("{}-{short}", case.job_name()));
        match change {
            Change::Delete => held.extend(names),
            Change::Finish => names.for_each(|name| {
                held.remove(&name);
            }),
            _ => {}
        }
    }
}

/// Where the job of a case is.
pub(crate) fn path(case: &Case) -> String {
    format!("{}/{}", collection_of(&case.job, case.setting.namespace()), case.job_name())
}

async fn act(rest: &Rest, case: &Case, action: &Action) -> Result<(), String> {
    let namespace = case.setting.namespace();
    let job = path(case);
    let done = match action {
        Action::Look => return Ok(()),
        Action::Pods(names, change) => return pods(rest, case, names, change).await,
        Action::Patch(patch) => rest.merge(&job, patch).await,
        Action::Scale(replicas) => {
            rest.merge(&format!("{job}/scale"), &json!({ "spec": { "replicas": replicas } })).await
        }
        Action::DropService(service) => {
            let path = format!("/api/v1/namespaces/{namespace}/services/{}-{service}", case.job_name());
            rest.delete(&path, &json!({})).await
        }
        Action::Group(phase) => {
            let groups = format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups");
            let status = json!({ "status": { "phase": phase } });
            rest.merge(&format!("{groups}/{}/status", case.job_name()), &status).await
        }
        Action::Gone => return gone(rest, &job).await,
    };
    done.map(drop).map_err(|error| format!("{action:?}: {}", said(&error)))
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

async fn gone(rest: &Rest, job: &str) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match rest.get(job).await {
            Err(error) if code(&error) == 404 => return Ok(()),
            _ if begun.elapsed() > LONG => return Err("the job is still there".into()),
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn pods(rest: &Rest, case: &Case, names: &[String], change: &Change) -> Result<(), String> {
    let job = case.job_name();
    let path = pods_of(case.setting.namespace());
    let listed = format!("{path}?labelSelector=training.kubeflow.org/job-name={job}");
    let mut there = items(rest, &listed).await;
    there.sort_by(|a, b| name(a).cmp(name(b)));
    let short = |pod: &Value| name(pod).strip_prefix(&format!("{job}-")).unwrap_or(name(pod)).to_owned();
    let mut missing = Vec::new();
    for wanted in names {
        let chosen: Vec<&Value> = there
            .iter()
            .filter(|pod| if wanted == "all" { !is_over(pod) } else { short(pod) == *wanted })
            .collect();
        if chosen.is_empty() {
            missing.push(format!("{change:?}: there is no {wanted}"));
        }
        for pod in chosen {
            let path = format!("{path}/{}", name(pod));
            one(rest, &path, pod, change).await.map_err(|error| format!("{change:?}: {}", said(&error)))?;
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
}

fn is_over(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

async fn one(rest: &Rest, path: &str, pod: &Value, change: &Change) -> Result<(), kube::Error> {
    if matches!(change, Change::Run | Change::Restart(_)) && text(pod, "/spec/nodeName").is_empty() {
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name(pod) },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE } });
        rest.post(&format!("{path}/binding"), &binding).await?;
    }
    let status = match change {
        Change::Delete => return rest.delete(path, &json!({})).await.map(drop),
        Change::Finish => return rest.delete(path, &json!({ "gracePeriodSeconds": 0 })).await.map(drop),
        Change::Run => running(pod, 0),
        Change::Restart(times) => running(pod, *times),
        Change::Crash(times) => {
            let mut status = running(pod, *times);
            let waits = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } });
            status["containerStatuses"] = json!(containers(pod, "containers", *times, &waits));
            status
        }
        Change::Succeed => ended(pod, "Succeeded", 0, "Completed"),
        Change::Fail(exit, reason) => ended(pod, "Failed", *exit, reason),
        Change::Evict => json!({ "phase": "Failed", "reason": "Evicted", "containerStatuses": null,
            "message": "The node was low on resource: memory." }),
        Change::Wait(reason) => {
            let waits = json!({ "waiting": { "reason": reason, "message": "no luck so far" } });
            json!({ "phase": "Pending", "containerStatuses": containers(pod, "containers", 0, &waits) })
        }
        Change::Unschedulable => json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available.", "lastTransitionTime": LONG_AGO }] }),
    };
    rest.merge(&format!("{path}/status"), &json!({ "status": status })).await.map(drop)
}

fn running(pod: &Value, restarts: u32) -> Value {
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": LONG_AGO });
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed",
        "startedAt": LONG_AGO, "finishedAt": LONG_AGO } });
    let runs = json!({ "running": { "startedAt": LONG_AGO } });
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    json!({
        "phase": "Running", "startTime": LONG_AGO, "podIP": "10.1.0.1", "podIPs": [{ "ip": "10.1.0.1" }],
        "conditions": conditions,
        "initContainerStatuses": containers(pod, "initContainers", 0, &done),
        "containerStatuses": containers(pod, "containers", restarts, &runs),
    })
}

fn ended(pod: &Value, phase: &str, exit: i32, reason: &str) -> Value {
    let state = json!({ "terminated": { "exitCode": exit, "reason": reason,
        "startedAt": LONG_AGO, "finishedAt": LONG_AGO } });
    json!({ "phase": phase, "containerStatuses": containers(pod, "containers", 0, &state) })
}

/// The status of each container in the same state.
fn containers(pod: &Value, field: &str, restarts: u32, state: &Value) -> Vec<Value> {
    let names = pod["spec"][field].as_array().into_iter().flatten().map(|container| &container["name"]);
    let ready = state.get("running").is_some();
    names
        .map(|name| {
            json!({ "name": name, "image": "none", "imageID": "", "ready": ready, "started": ready,
                "restartCount": restarts, "state": state })
        })
        .collect()
}
