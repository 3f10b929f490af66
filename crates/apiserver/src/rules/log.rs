//! Whose log is meant, and whether there can be one: in the words of a real server and its kubelet.

use serde_json::Value;

use crate::failure::Failure;
use crate::object::{at, meta};

const SPECS: [&str; 3] = ["spec.initContainers", "spec.containers", "spec.ephemeralContainers"];
const STATUSES: [&str; 3] =
    ["status.containerStatuses", "status.initContainerStatuses", "status.ephemeralContainerStatuses"];

fn items<'a>(pod: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    at(pod, path).and_then(Value::as_array).into_iter().flatten()
}

fn names<'a>(pod: &'a Value, path: &str) -> Vec<&'a str> {
    items(pod, path).filter_map(|container| container.get("name")?.as_str()).collect()
}

/// The container that is meant: the one asked for, or the only one.
pub(crate) fn container<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Failure> {
    let pod_name = meta(pod, "name");
    if !asked.is_empty() {
        let known = SPECS.iter().any(|path| names(pod, path).contains(&asked));
        return known.then_some(asked).ok_or_else(|| {
            Failure::bad_request(format!("container {asked} is not valid for pod {pod_name}"))
        });
    }
    let need = format!("a container name must be specified for pod {pod_name}");
    match names(pod, "spec.containers").as_slice() {
        [only] => Ok(only),
        [] => Err(Failure::bad_request(need)),
        _ => {
            let all: Vec<&str> = SPECS.iter().flat_map(|path| names(pod, path)).collect();
            Err(Failure::bad_request(format!("{need}, choose one of: [{}]", all.join(" "))))
        }
    }
}

/// Whether a pod was given to a node. One that was not has an empty log, not a missing one.
pub(crate) fn is_placed(pod: &Value) -> bool {
    at(pod, "spec.nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

/// Refuses the log of a container that, as its status says, has never run.
pub(crate) fn has_run(pod: &Value, container: &str, previous: bool) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::bad_request(why));
    let who = format!("container {container:?} in pod {:?}", meta(pod, "name"));
    let named = |status: &&Value| status.get("name").and_then(Value::as_str) == Some(container);
    let Some(status) = STATUSES.iter().find_map(|path| items(pod, path).find(named)) else {
        return refuse(&format!("{who} is not available"));
    };
    let is = |path: &str| status.pointer(path).is_some_and(|state| !state.is_null());
    if previous {
        return match is("/lastState/terminated") {
            true => Ok(()),
            false => refuse(&format!("previous terminated {who} not found")),
        };
    }
    if is("/state/running") || is("/state/terminated") || is("/lastState/terminated") {
        return Ok(());
    }
    match status.pointer("/state/waiting/reason").and_then(Value::as_str) {
        Some("ErrImagePull") => refuse(&format!("{who} is waiting to start: image can't be pulled")),
        Some("ImagePullBackOff") => {
            refuse(&format!("{who} is waiting to start: trying and failing to pull image"))
        }
        Some(reason) => refuse(&format!("{who} is waiting to start: {reason}")),
        None => refuse(&format!("{who} is waiting to start - no logs yet")),
    }
}
