//! The first failure of a cascade: when one replica dies the others follow, and only the first says why.

use trainyard_api::FirstFailure;
use trainyard_api::reasons::event;

use crate::conditions;
use crate::plan::Draft;
use crate::pod::{ContainerState, ContainerView, PodView};
use crate::report::Notice;
use crate::seen::Ask;

/// Names the one of these pods that failed first. Called where their failure is acted upon, once.
pub(crate) fn name(draft: &mut Draft<'_>, failed: &[&PodView]) {
    // A pod of which nobody knows when it ended is the least likely to have been first.
    let first = failed.iter().min_by_key(|pod| {
        let finished = pod.last_run().map(|(_, finished)| finished);
        (finished.is_none(), finished)
    });
    let Some(pod) = first else { return };
    let container = trains(pod, draft.framework.facts().container);
    let (exit_code, reason) = match container.map(|container| &container.state) {
        Some(ContainerState::Terminated { exit, reason, .. }) => (Some(*exit), reason.as_deref()),
        Some(ContainerState::Waiting { reason }) => (None, reason.as_deref()),
        Some(ContainerState::Running) | None => (None, None),
    };
    let tail = draft.seen.tail.filter(|tail| *tail.uid == *pod.uid);
    if let (None, Some(container)) = (tail, container) {
        let container = container.name.to_string();
        draft.ask = Some(Ask { pod: pod.name.to_string(), uid: pod.uid.to_string(), container });
    }
    let failure = FirstFailure {
        pod: pod.name.to_string(),
        node: pod.node.as_deref().map(str::to_owned),
        exit_code,
        reason: pod.reason.as_deref().or(reason).map(str::to_owned),
        cause: pod.cause().as_str().to_owned(),
        finished: pod.last_run().map(|(_, finished)| conditions::stamp(finished)),
        log: tail.map(|tail| tail.lines.clone()).unwrap_or_default(),
    };
    let message = sentence(&failure);
    draft.say("first", message.clone());
    draft.tell(Notice::warning(event::FIRST_FAILURE, message));
    draft.status.first_failure = Some(failure);
}

fn trains<'a>(pod: &'a PodView, name: &str) -> Option<&'a ContainerView> {
    let named = pod.containers.iter().find(|container| &*container.name == name);
    named.or_else(|| pod.containers.iter().find(|container| !container.init))
}

fn sentence(failure: &FirstFailure) -> String {
    let FirstFailure { pod, node, exit_code, reason, cause, log, .. } = failure;
    let node = node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let code = exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let log = if log.is_empty() { String::new() } else { format!("; its last lines: {}", log.join(" | ")) };
    format!("{pod} failed first{node}: {cause}{code}{reason}{log}")
}
