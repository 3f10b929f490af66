//! What a pod is doing, in the words kubectl uses for it.

use serde_json::Value;

use super::fields::{items, number, text};

/// `1/2`: containers that are ready, of all.
pub(crate) fn ready(pod: &Value) -> String {
    let ready = items(pod, "/status/containerStatuses").iter();
    let ready = ready.filter(|container| container.get("ready") == Some(&Value::Bool(true))).count();
    format!("{ready}/{}", items(pod, "/spec/containers").len())
}

/// The state in one word: what is most worth knowing wins.
pub(crate) fn status(pod: &Value) -> String {
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        return "Terminating".into();
    }
    let reason = text(pod, "/status/reason");
    if !reason.is_empty() {
        return reason.into();
    }
    let phase = text(pod, "/status/phase");
    let containers = items(pod, "/status/containerStatuses").iter();
    let words = containers.map(|container| word(container, phase)).find(|word| !word.is_empty());
    match (init(pod), words) {
        (Some(init), _) if phase == "Pending" => init,
        (_, Some(word)) => word,
        (_, None) if phase.is_empty() => "Unknown".into(),
        (_, None) => phase.into(),
    }
}

fn word(container: &Value, phase: &str) -> String {
    let waiting = text(container, "/state/waiting/reason");
    let ended = text(container, "/state/terminated/reason");
    if !waiting.is_empty() {
        return waiting.into();
    }
    // A sidecar that ended says nothing about a pod that runs.
    if container.pointer("/state/terminated").is_none() || phase == "Running" {
        return String::new();
    }
    if ended.is_empty() {
        format!("ExitCode:{}", number(container, "/state/terminated/exitCode"))
    } else {
        ended.into()
    }
}

/// `Init:0/1`, while init containers run.
fn init(pod: &Value) -> Option<String> {
    let all = items(pod, "/spec/initContainers").len();
    let done = items(pod, "/status/initContainerStatuses").iter();
    let done = done.filter(|c| c.pointer("/state/terminated/exitCode") == Some(&Value::from(0))).count();
    (all > 0 && done < all).then(|| format!("Init:{done}/{all}"))
}

/// How often its containers were started again.
pub(crate) fn restarts(pod: &Value) -> i64 {
    items(pod, "/status/containerStatuses").iter().map(|container| number(container, "/restartCount")).sum()
}

/// The end of the container that ended, now or before its last start: `(exit code, reason, message)`.
pub(crate) fn end(pod: &Value) -> Option<(i64, String, String)> {
    let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let containers = || lists.iter().flat_map(|list| items(pod, list));
    let ended = |pointer: &'static str| containers().filter_map(move |container| container.pointer(pointer));
    let ends = || ended("/state/terminated").chain(ended("/lastState/terminated"));
    let worst = ends().find(|end| number(end, "/exitCode") != 0).or_else(|| ends().next())?;
    Some((number(worst, "/exitCode"), text(worst, "/reason").into(), text(worst, "/message").trim().into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_word_that_matters_most_is_shown() {
        let pod = |status: Value| json!({ "spec": { "containers": [{}] }, "status": status });
        let container = |state: Value| json!([{ "name": "c", "state": state }]);
        let cases = [
            (json!({ "phase": "Pending" }), "Pending"),
            (
                json!({ "phase": "Running", "containerStatuses": container(json!({ "running": {} })) }),
                "Running",
            ),
            (
                json!({ "phase": "Running", "containerStatuses": container(json!({ "waiting": { "reason": "CrashLoopBackOff" } })) }),
                "CrashLoopBackOff",
            ),
            (
                json!({ "phase": "Failed", "containerStatuses": container(json!({ "terminated": { "exitCode": 3 } })) }),
                "ExitCode:3",
            ),
            (
                json!({ "phase": "Succeeded", "containerStatuses": container(json!({ "terminated": { "exitCode": 0, "reason": "Completed" } })) }),
                "Completed",
            ),
            (json!({ "phase": "Failed", "reason": "Evicted" }), "Evicted"),
            (json!({}), "Unknown"),
        ];
        for (given, expected) in cases {
            assert_eq!(status(&pod(given.clone())), expected, "{given}");
        }
        let going = json!({ "metadata": { "deletionTimestamp": "x" }, "status": { "phase": "Running" } });
        assert_eq!(status(&going), "Terminating");
        let init = json!({ "spec": { "initContainers": [{}], "containers": [{}] }, "status": { "phase": "Pending" } });
        assert_eq!((status(&init), ready(&init)), ("Init:0/1".into(), "0/1".into()));
    }

    #[test]
    fn an_end_before_the_last_start_is_an_end() {
        let pod = json!({ "status": { "containerStatuses": [
            { "state": { "running": {} }, "restartCount": 2, "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } },
        ] } });
        assert_eq!(end(&pod), Some((137, "OOMKilled".into(), String::new())));
        assert_eq!(restarts(&pod), 2);
        assert_eq!(end(&json!({})), None);
    }
}
