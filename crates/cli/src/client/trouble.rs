//! Why pods do not run.

use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{items, name, text};

/// A pod that does not run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pod: String,
    state: State,
    /// What is known of the reason.
    pub(crate) why: String,
}

/// How a pod does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Down,
    Failed,
}

impl Trouble {
    /// The trouble of a pod; none if it runs, or has ended well.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        let (state, why) = match text(pod, "/status/phase") {
            "Succeeded" => return None,
            "Failed" => (State::Failed, joined(&ended(pod), text(pod, "/status/message"))),
            "Running" => (State::Down, waiting(pod)?),
            _ => (State::Pending, unscheduled(pod).or_else(|| waiting(pod)).unwrap_or_else(|| stage(pod))),
        };
        Some(Self { pod: name(pod).to_owned(), state, why })
    }

    /// The trouble of a pod that is still text. Its spec, most of the text, is passed over.
    pub(crate) fn read(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            node_name: Option<String>,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: Option<String>,
        }
        #[derive(Deserialize)]
        struct Pod {
            metadata: Option<Metadata>,
            spec: Option<Spec>,
            status: Option<Value>,
        }
        let Pod { metadata, spec, status } = serde_json::from_str(json).ok()?;
        let (name, node) = (metadata.and_then(|it| it.name), spec.and_then(|it| it.node_name));
        let known = json!({ "metadata": { "name": name }, "spec": { "nodeName": node }, "status": status });
        Self::of(&known)
    }

    /// True for a pod that will not come back.
    pub(crate) fn is_final(&self) -> bool {
        self.state == State::Failed
    }
}

/// One line for all pods with the same trouble: a job may have hundreds.
pub(crate) fn grouped(all: impl Iterator<Item = Trouble>) -> Vec<String> {
    let mut groups: Vec<(Trouble, usize)> = Vec::new();
    for trouble in all {
        let same =
            |(known, _): &&mut (Trouble, usize)| known.state == trouble.state && known.why == trouble.why;
        match groups.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => groups.push((trouble, 1)),
        }
    }
    groups.into_iter().map(|(trouble, count)| sentence(&trouble, count)).collect()
}

fn sentence(trouble: &Trouble, count: usize) -> String {
    let Trouble { pod, state, why } = trouble;
    let (one, many) = match state {
        State::Pending => ("is pending", "are pending"),
        State::Down => ("is down", "are down"),
        State::Failed => ("failed", "failed"),
    };
    match count {
        1 => format!("{pod} {one}: {why}"),
        _ => format!("{pod} and {} more {many}: {why}", count.saturating_sub(1)),
    }
}

fn unscheduled(pod: &Value) -> Option<String> {
    let mut conditions = items(pod, "/status/conditions").iter();
    let no = conditions.find(|c| text(c, "/type") == "PodScheduled" && text(c, "/status") == "False")?;
    Some(joined(text(no, "/reason"), text(no, "/message")))
}

/// What a container waits for. The usual stages of a start are no trouble, and have no message.
fn waiting(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    lists.iter().flat_map(|list| items(pod, list)).find_map(|container| {
        let (reason, message) =
            (text(container, "/state/waiting/reason"), text(container, "/state/waiting/message"));
        let usual = matches!(reason, "" | "ContainerCreating" | "PodInitializing");
        (!usual || !message.is_empty()).then(|| joined(reason, message))
    })
}

fn stage(pod: &Value) -> String {
    match text(pod, "/spec/nodeName") {
        "" => "no node has taken it yet".into(),
        node => format!("{node} has not started it yet"),
    }
}

fn ended(pod: &Value) -> String {
    let codes = items(pod, "/status/containerStatuses").iter().filter_map(|container| {
        let code = container.pointer("/state/terminated/exitCode")?.as_i64().filter(|code| *code != 0)?;
        let (name, reason) = (text(container, "/name"), text(container, "/state/terminated/reason"));
        Some(format!("{name} exited with {code} ({reason})"))
    });
    joined(text(pod, "/status/reason"), &codes.collect::<Vec<_>>().join(", "))
}

/// `reason: message`, with neither, one or both.
pub(crate) fn joined(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", text) | (text, "") => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, status: Value) -> Value {
        json!({ "metadata": { "name": name }, "spec": {}, "status": status })
    }

    #[test]
    fn the_same_trouble_is_said_once() {
        let no = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                         "reason": "Unschedulable", "message": "no GPU" }] });
        let pull = json!({ "phase": "Pending", "containerStatuses": [
            { "name": "c", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no image" } } }] });
        let code = json!({ "phase": "Failed", "containerStatuses": [
            { "name": "c", "state": { "terminated": { "exitCode": 3, "reason": "Error" } } }] });
        let pods = [
            pod("a", no.clone()),
            pod("b", no),
            pod("c", pull),
            pod("d", code),
            pod("e", json!({ "phase": "Running" })),
            pod("f", json!({ "phase": "Succeeded" })),
            pod("g", json!({})),
        ];
        let expected = [
            "a and 1 more are pending: Unschedulable: no GPU",
            "c is pending: ImagePullBackOff: no image",
            "d failed: c exited with 3 (Error)",
            "g is pending: no node has taken it yet",
        ];
        assert_eq!(grouped(pods.iter().filter_map(Trouble::of)), expected);
        let text = pods.iter().map(Value::to_string);
        assert_eq!(grouped(text.filter_map(|pod| Trouble::read(&pod))), expected);
    }
}
