//! What of a pod is there, read from disk.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use serde_json::Value;

use super::sight::{Health, Run, containers};
use super::{message, probes, refresh};
use crate::runtime::{Exit, Instance, logs};
use crate::shared::Shared;

/// As much of the log of a failed container as goes into its status, when it asks for it.
const MESSAGE_LINES: u64 = 80;
const MESSAGE_BYTES: usize = 2048;

/// What was seen of a pod.
pub(crate) struct Looked {
    /// The newest run of each container that was ever started.
    pub(crate) runs: BTreeMap<String, Run>,
    /// It has volumes that follow what they are made from.
    pub(crate) follows: bool,
}

/// Looks at everything of a pod.
///
/// # Errors
/// When nobody can tell what runs.
pub(crate) fn all(shared: &Shared, pod: &Pod, uid: &str) -> Result<Looked, String> {
    let mut runs = BTreeMap::new();
    for (_, container) in containers(pod) {
        if let Some(run) = newest(shared, pod, uid, container)? {
            runs.insert(container.name.clone(), run);
        }
    }
    let follows = !runs.is_empty() && refresh::is_needed(&shared.trimmed(pod));
    Ok(Looked { runs, follows })
}

/// The newest run of a container; nothing if it was never started. An error means that nobody can tell: what cannot be
/// read is not the same as what is not there.
fn newest(shared: &Shared, pod: &Pod, uid: &str, container: &Container) -> Result<Option<Run>, String> {
    let numbers = shared.disk.runs(uid, &container.name);
    let numbers = numbers.map_err(|error| format!("the runs of {}: {error}", container.name))?;
    let Some(number) = numbers.last().copied() else { return Ok(None) };
    let instance = instance(shared, uid, container, number)?;
    // A directory without a claim is a start that was interrupted: it is as if it had not been tried.
    if instance == Instance::Absent && number == 0 {
        return Ok(None);
    }
    let (number, instance) = match instance {
        Instance::Absent => (number - 1, self::instance(shared, uid, container, number - 1)?),
        found => (number, found),
    };
    let previous = number.checked_sub(1).map(|before| self::instance(shared, uid, container, before));
    let previous = match previous {
        Some(Ok(Instance::Ended(exit))) => Some(exit),
        _ => None,
    };
    let level = shared.disk.level(uid, &container.name, number);
    Ok(Some(Run { number, level, instance, previous, health: known_health(pod, container, number) }))
}

fn instance(shared: &Shared, uid: &str, container: &Container, number: u32) -> Result<Instance, String> {
    let dir = shared.disk.run(uid, &container.name, number);
    match shared.runtime.look(&dir) {
        Ok(Instance::Ended(exit)) => Ok(Instance::Ended(with_message(exit, &dir, container))),
        Ok(instance) => Ok(instance),
        Err(error) => Err(format!("run {number} of {}: {error}", container.name)),
    }
}

/// What we have to say comes first, then what the container said, then what it wrote last, if it asks for that.
fn with_message(exit: Exit, dir: &std::path::Path, container: &Container) -> Exit {
    if exit.message.is_some() {
        return exit;
    }
    if let Some(message) = message::read(dir) {
        return Exit { message: Some(message), ..exit };
    }
    let wanted = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if !wanted || exit.code == 0 {
        return exit;
    }
    let tail = logs::tail_bytes(dir, MESSAGE_LINES, MESSAGE_BYTES);
    Exit { message: Some(tail).filter(|tail| !tail.is_empty()), ..exit }
}

/// What an earlier control plane knew of this run, from the status it wrote.
fn known_health(pod: &Pod, container: &Container, number: u32) -> Health {
    let fresh = probes::at_start(container);
    let status = pod.status.as_ref();
    let of = |list: &Option<Vec<ContainerStatus>>| {
        list.iter().flatten().find(|status| status.name == container.name).cloned()
    };
    let known = status.and_then(|s| of(&s.container_statuses).or_else(|| of(&s.init_container_statuses)));
    let Some(known) = known.filter(|known| i64::from(known.restart_count) == i64::from(number)) else {
        return fresh;
    };
    Health {
        started: fresh.started || known.started == Some(true),
        ready: fresh.ready || known.ready,
        dead: false,
    }
}

/// A merge patch that also removes what is no longer there.
pub(crate) fn with_nulls(before: Value, after: Value) -> Value {
    let (Value::Object(before), Value::Object(mut after)) = (before, after) else { return Value::Null };
    for name in before.keys() {
        after.entry(name.clone()).or_insert(Value::Null);
    }
    Value::Object(after)
}
