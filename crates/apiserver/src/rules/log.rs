//! Whose log is meant, and whether there can be one: in the words of a real server and its kubelet.

use serde_json::Value;

use crate::failure::Failure;
use crate::object::{at, meta};

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
const SPECS: [&str; 3] = ["spec.containers", "spec.initContainers", "spec.ephemeralContainers"];
const STATUSES: [&str; 3] =
    ["status.containerStatuses", "status.initContainerStatuses", "status.ephemeralContainerStatuses"];

fn items<'a>(pod: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    at(pod, path).and_then(Value::as_array).into_iter().flatten()
}

fn names<'a>(pod: &'a Value, path: &str) -> Vec<&'a str> {
    items(pod, path).filter_map(|container| container.get("name")?.as_str()).collect()
}

/// The container that is meant: the one asked for, the only one, or the one an annotation names.
pub(crate) fn container<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Failure> {
    let pod_name = meta(pod, "name");
    if !asked.is_empty() {
        let known = SPECS.iter().any(|path| names(pod, path).contains(&asked));
        return known.then_some(asked).ok_or_else(|| {
            Failure::bad_request(format!("container {asked} is not valid for pod {pod_name}"))
        });
    }
    let main = names(pod, "spec.containers");
    if let [only] = main.as_slice() {
        return Ok(only);
    }
    let preferred = pod.pointer("/metadata/annotations").and_then(|all| all.get(DEFAULT_CONTAINER)?.as_str());
    if let Some(preferred) = preferred.filter(|name| SPECS.iter().any(|p| names(pod, p).contains(name))) {
        return Ok(preferred);
    }
    let mut message =
        format!("a container name must be specified for pod {pod_name}, choose one of: [{}]", main.join(" "));
    let init = names(pod, "spec.initContainers");
    if !init.is_empty() {
        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    Err(Failure::bad_request(message))
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
