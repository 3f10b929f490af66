//! The first failure of a cascade: when one replica dies the others follow, and only the first says why.

use trainyard_api::FirstFailure;
use trainyard_api::reasons::event;

use crate::conditions;
use crate::plan::Draft;
use crate::pod::{Cause, ContainerState, ContainerView, PodView};
use crate::report::Notice;
use crate::seen::Ask;

/// Names the one of these pods that failed first. Called where their failure is acted upon, once.
pub(crate) fn name(draft: &mut Draft<'_>, failed: &[&PodView]) {
    // Ports that are taken are nobody's failure, and others are tried. A pod of which nobody knows when it ended is the
    // least likely to have been first.
    let first = failed.iter().filter(|pod| pod.cause() != Cause::PortTaken).min_by_key(|pod| {
        let finished = pod.last_run().map(|(_, finished)| finished);
        (finished.is_none(), finished)
    });
    let Some(pod) = first else { return };
    let container = culprit(&pod.containers, draft.framework.facts().container);
    let end = container.and_then(ContainerView::end);
    let waits = container.and_then(|container| match &container.state {
        ContainerState::Waiting { reason } => reason.as_deref(),
        ContainerState::Running | ContainerState::Terminated { .. } => None,
    });
    let (exit_code, reason) = (end.map(|(exit, _)| exit), end.map_or(waits, |(_, reason)| reason));
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

/// The container that failed, the training one before others; if none has, the training one.
fn culprit<'a>(containers: &'a [ContainerView], name: &str) -> Option<&'a ContainerView> {
    let named = containers.iter().find(|container| &*container.name == name);
    let trains = named.or_else(|| containers.iter().find(|container| !container.init));
    let failed = |container: &&ContainerView| container.has_failed();
    trains.filter(failed).or_else(|| containers.iter().find(failed)).or(trains)
}

fn sentence(failure: &FirstFailure) -> String {
    let FirstFailure { pod, node, exit_code, reason, cause, log, .. } = failure;
    let node = node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let code = exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let log = if log.is_empty() { String::new() } else { format!("; its last lines: {}", log.join(" | ")) };
    format!("{pod} failed first{node}: {cause}{code}{reason}{log}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::End;

    fn container(name: &str, init: bool, state: ContainerState, last: Option<i32>) -> ContainerView {
        let last = last.map(|exit| Box::new(End { exit, reason: Some("Error".into()) }));
        ContainerView { name: name.into(), init, state, last, ..ContainerView::default() }
    }

    fn ended(exit: i32) -> ContainerState {
        ContainerState::Terminated { exit, reason: None, started: None, finished: None }
    }

    fn waiting(reason: &str) -> ContainerState {
        ContainerState::Waiting { reason: Some(reason.into()) }
    }

    #[test]
    fn the_container_that_failed_is_named_with_its_code() {
        let cases = [
            (ended(1), ended(9), ended(0), "trains", Some(1)),
            (ended(0), ended(9), ended(0), "sidecar", Some(9)),
            (waiting("PodInitializing"), waiting("PodInitializing"), ended(4), "init", Some(4)),
            (ended(0), ended(0), ended(0), "trains", Some(0)),
            (ContainerState::Running, ended(0), ended(0), "trains", None),
        ];
        for (trains, sidecar, init, name, exit) in cases {
            let containers = [
                container("init", true, init, None),
                container("sidecar", false, sidecar, None),
                container("trains", false, trains, None),
            ];
            let found = culprit(&containers, "trains").unwrap();
            assert_eq!((&*found.name, found.end().map(|(exit, _)| exit)), (name, exit));
        }
    }

    #[test]
    fn a_container_that_waits_to_be_restarted_has_ended() {
        let containers = [container("trains", false, waiting("CrashLoopBackOff"), Some(3))];
        assert_eq!(culprit(&containers, "trains").and_then(ContainerView::end), Some((3, Some("Error"))));
    }
}
