//! Whose log is meant, and which of its containers.

use anyhow::bail;
use serde_json::Value;
use trainyard_core::framework::decider;
use trainyard_core::{Decoded, JobView, decode};

use crate::client::cluster::Cluster;
use crate::client::fields::{items, text};
use crate::client::target::Job;

/// Kubectl's own way to name the container that matters.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// `worker-0`.
    pub(crate) label: String,
    /// The name of its pod, whether there is one or not.
    pub(crate) pod: String,
}

/// The replicas that are meant: all, the one that was named, or the one that decides.
pub(crate) fn replicas(
    cluster: &Cluster,
    job: &Job,
    all: bool,
    wanted: Option<&str>,
) -> anyhow::Result<Vec<Replica>> {
    let Decoded { job: view, framework, .. } = match decode(&cluster.catalog, job.kind, &job.object) {
        Ok(decoded) => decoded,
        Err(bad) => bail!("{} has no replicas: its spec is invalid: {}", job.title(), bad.error),
    };
    let every = every(&view);
    let named = |label: &str| every.iter().find(|replica| replica.label.eq_ignore_ascii_case(label)).cloned();
    if all {
        return Ok(every);
    }
    if let Some(wanted) = wanted {
        let Some(found) = named(wanted) else {
            let known: Vec<&str> = every.iter().map(|replica| replica.label.as_str()).collect();
            bail!("--replica: {} has no replica {wanted:?}, it has {}", job.title(), known.join(", "));
        };
        return Ok(vec![found]);
    }
    let role = decider(framework.facts(), &view).and_then(|name| view.role(name));
    let deciding = role.and_then(|role| named(&format!("{}-0", role.label)));
    match deciding.or_else(|| every.first().cloned()) {
        Some(replica) => Ok(vec![replica]),
        None => bail!("{} has no replicas: its spec asks for none", job.title()),
    }
}

fn every(view: &JobView) -> Vec<Replica> {
    let replica = |slot: trainyard_core::Slot<'_>| Replica {
        label: format!("{}-{}", slot.role.label, slot.index),
        pod: slot.child_name(view),
    };
    view.slots().map(replica).collect()
}

/// The container that is meant: the one that was named, the one that trains, or the first.
pub(crate) fn container(pod: &Value, wanted: Option<&str>, trains: Option<&str>) -> anyhow::Result<String> {
    let names = |list: &str| -> Vec<String> {
        items(pod, list).iter().map(|container| text(container, "/name").to_owned()).collect()
    };
    let (main, init) = (names("/spec/containers"), names("/spec/initContainers"));
    if let Some(wanted) = wanted {
        if main.iter().chain(&init).any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let known: Vec<String> = main.into_iter().chain(init).collect();
        bail!(
            "--container: pod {} has no container {wanted:?}, it has {}",
            text(pod, "/metadata/name"),
            known.join(", ")
        );
    }
    let annotated = pod.pointer("/metadata/annotations").and_then(|map| map.get(DEFAULT_CONTAINER));
    let preferred = [annotated.and_then(Value::as_str), trains];
    let found = preferred.into_iter().flatten().find(|name| main.iter().any(|known| known == name));
    Ok(found.map(str::to_owned).or_else(|| main.into_iter().next()).unwrap_or_default())
}

/// One run of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The pod.
    pub(crate) uid: String,
    /// How often the container was started before.
    pub(crate) restarts: i64,
    /// True while it runs.
    pub(crate) live: bool,
}

impl Run {
    /// The latest run of a container; nothing if it has not started.
    pub(crate) fn of(pod: &Value, container: &str) -> Option<Self> {
        let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
        let mut all = lists.iter().flat_map(|list| items(pod, list));
        let status = all.find(|status| text(status, "/name") == container)?;
        let live = status.pointer("/state/running").is_some();
        let ended = ["/state/terminated", "/lastState/terminated"];
        let ended = ended.iter().any(|end| status.pointer(end).is_some());
        (live || ended).then(|| Self {
            uid: text(pod, "/metadata/uid").to_owned(),
            restarts: status.get("restartCount").and_then(Value::as_i64).unwrap_or(0),
            live,
        })
    }

    /// True when the other is the same run, at whatever moment of it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.uid == other.uid && self.restarts == other.restarts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &[&str], status: Value) -> Value {
        let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
        json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "containers": containers },
                "status": { "containerStatuses": [status] } })
    }

    #[test]
    fn the_container_that_trains_is_meant() {
        let pod = pod(&["proxy", "pytorch"], json!({}));
        assert_eq!(container(&pod, None, Some("pytorch")).unwrap(), "pytorch");
        assert_eq!(container(&pod, None, Some("other")).unwrap(), "proxy");
        assert_eq!(container(&pod, Some("proxy"), Some("pytorch")).unwrap(), "proxy");
        let error = container(&pod, Some("x"), None).unwrap_err().to_string();
        assert!(error.contains("it has proxy, pytorch"), "{error}");
    }

    #[test]
    fn a_run_begins_with_a_start() {
        let run = |state: Value| Run::of(&pod(&["c"], state), "c");
        assert_eq!(run(json!({ "name": "c", "state": { "waiting": {} } })), None);
        assert!(run(json!({ "name": "c", "state": { "running": {} } })).unwrap().live);
        let down = json!({ "name": "c", "restartCount": 1, "state": { "waiting": {} }, "lastState": { "terminated": {} } });
        let down = run(down).unwrap();
        assert!(!down.live && down.restarts == 1);
        assert!(Run::of(&json!({}), "c").is_none());
    }
}
