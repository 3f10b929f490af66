//! Pods: one word for the state of all their containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{age, condition, flag, has, int, items, moment, since, text, text_or};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let address = items(pod, "status.podIPs").first().map_or("<none>", |ip| text_or(ip, "ip", "<none>"));
    vec![
        text(pod, "metadata.name").into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        summary.restarts.show(now).into(),
        age(pod, now),
        address.into(),
        text_or(pod, "spec.nodeName", "<none>").into(),
        text_or(pod, "status.nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// The row condition that lets clients leave finished pods out.
pub(super) fn finished(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// How often containers restarted, and when the last one did.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += int(container, "restartCount");
        self.last = self.last.max(moment(container, "lastState.terminated.finishedAt"));
    }

    fn show(self, now: Timestamp) -> String {
        match (self.count, self.last) {
            (0, _) | (_, None) => self.count.to_string(),
            (count, last) => format!("{count} ({} ago)", since(last, now)),
        }
    }
}

struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

/// An init container that keeps running beside the others.
fn is_sidecar(pod: &Value, name: &str) -> bool {
    let named = |container: &&Value| text(container, "name") == name;
    let found = items(pod, "spec.initContainers").iter().rfind(named);
    found.is_some_and(|container| text(container, "restartPolicy") == "Always")
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let inits = items(pod, "spec.initContainers");
        let sidecars = inits.iter().filter(|c| text(c, "restartPolicy") == "Always").count();
        let mut summary = Self {
            ready: 0,
            total: items(pod, "spec.containers").len() + sidecars,
            reason: text_or(pod, "status.reason", text(pod, "status.phase")).to_owned(),
            restarts: Restarts::default(),
        };
        let gated = |c: &Value| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated";
        if items(pod, "status.conditions").iter().any(gated) {
            summary.reason = "SchedulingGated".into();
        }
        let (initialising, of_sidecars) = summary.initialise(pod);
        if !initialising || condition(pod, "Initialized", "True") {
            summary.restarts = of_sidecars;
            summary.run(pod);
        }
        if has(pod, "metadata.deletionTimestamp") {
            if text(pod, "status.reason") == "NodeLost" {
                summary.reason = "Unknown".into();
            } else if !["Succeeded", "Failed"].contains(&text(pod, "status.phase")) {
                summary.reason = "Terminating".into();
            }
        }
        summary
    }

    /// Walks the init containers up to the first that is not done. Whether there is one, and the restarts of sidecars.
    fn initialise(&mut self, pod: &Value) -> (bool, Restarts) {
        let mut of_sidecars = Restarts::default();
        let count = items(pod, "spec.initContainers").len();
        for (index, container) in items(pod, "status.initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let sidecar = is_sidecar(pod, text(container, "name"));
            if sidecar {
                of_sidecars.add(container);
            }
            let ended = has(container, "state.terminated");
            if ended && int(container, "state.terminated.exitCode") == 0 {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            let waiting = text(container, "state.waiting.reason");
            self.reason = if ended {
                format!("Init:{}", ending(container))
            } else if !["", "PodInitializing"].contains(&waiting) {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{count}")
            };
            return (true, of_sidecars);
        }
        (false, of_sidecars)
    }

    /// Looks at the containers from the last to the first, so that the first has the last word.
    fn run(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = String::new();
        for container in items(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let waiting = text(container, "state.waiting.reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if has(container, "state.terminated") {
                self.reason = ending(container);
                if int(container, "state.terminated.exitCode") != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if flag(container, "ready") && has(container, "state.running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && condition(pod, "Ready", "True") {
                self.reason = "Running".into();
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}

/// Why a container ended.
fn ending(container: &Value) -> String {
    let signal = int(container, "state.terminated.signal");
    match text(container, "state.terminated.reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", int(container, "state.terminated.exitCode")),
        reason => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "spec.readinessGates");
    let conditions = items(pod, "status.conditions");
    let holds = |gate: &&Value| {
        let found = conditions.iter().find(|c| text(c, "type") == text(gate, "conditionType"));
        found.is_some_and(|c| text(c, "status") == "True")
    };
    match gates.len() {
        0 => "<none>".into(),
        all => format!("{}/{all}", gates.iter().filter(holds).count()),
    }
}
