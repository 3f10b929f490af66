//! A gang for schedulers that place all pods of a job or none: its size follows the job, and pods wait for it where the
//! scheduler wants them to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trainyard_api::labels;
use trainyard_api::reasons::{event, suffix};

use crate::action::Child;
use crate::extra;
use crate::job::{JobView, Role};
use crate::plan::{Draft, Flow};
use crate::pod_draft::PodDraft;
use crate::quantity::{self, Quantity};
use crate::record::Record;
use crate::report::Notice;
use crate::seen::{GangScheduler, Priorities};
use crate::steps::{build, extras};

/// The queue of a gang of which nobody says more.
const QUEUE: &str = "default";

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    let Some(scheduler) = draft.seen.options.gang.as_ref() else {
        return Flow::Go;
    };
    let queue = text_of_gang(draft, scheduler, "/spec/queue");
    let mut want = wanted(scheduler, draft.job(), &draft.record, draft.seen.priorities, queue);
    if let Some(gang) = extras::find(draft, scheduler.resource(), &draft.job().name) {
        retire(&gang.content, &mut want.body);
    }
    let there = extras::settle(draft, &want);
    if !there {
        draft.hold(suffix::GANG, format!("PodGroup {} is not there yet", want.name));
    } else if is_queued(draft) {
        let queue = if queue.is_empty() { QUEUE } else { queue };
        draft.hold(suffix::GANG, format!("PodGroup {} waits in queue {queue}", want.name));
    }
    Flow::Go
}

/// A text in the gang as it is; empty if there is none.
fn text_of_gang<'a>(draft: &Draft<'a>, scheduler: &GangScheduler, pointer: &str) -> &'a str {
    let gang = extras::find(draft, scheduler.resource(), &draft.job().name);
    gang.map(|gang| text_at(&gang.content, pointer)).unwrap_or_default()
}

fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the scheduler has yet to let the gang in: until then there is nothing to start.
pub(crate) fn is_queued(draft: &Draft<'_>) -> bool {
    match draft.seen.options.gang.as_ref() {
        Some(scheduler @ GangScheduler::Volcano) => {
            ["", "Pending"].contains(&text_of_gang(draft, scheduler, "/status/phase"))
        }
        Some(GangScheduler::Plugins(_)) | None => false,
    }
}

/// The gang of a job. A queue that somebody chose stays.
fn wanted(
    scheduler: &GangScheduler,
    job: &JobView,
    record: &Record,
    priorities: &Priorities,
    queue: &str,
) -> Child {
    let policy = &job.policy.scheduling;
    let left = u32::try_from(build::left(job, record)).unwrap_or(u32::MAX);
    let members = job.policy.min_available.unwrap_or(left);
    let mut spec = Map::new();
    spec.insert("minMember".into(), members.into());
    let resources = match &policy.min_resources {
        Some(resources) => json!(resources),
        None => resources(job, members, priorities),
    };
    // As the peers of each scheduler write it: Volcano's has it always, the plugin's if there is something in it.
    let none = resources.as_object().is_some_and(Map::is_empty);
    if !none || *scheduler == GangScheduler::Volcano {
        spec.insert("minResources".into(), resources);
    }
    match scheduler {
        GangScheduler::Volcano => {
            let asked = policy.queue.as_deref().filter(|queue| !queue.is_empty());
            let queue = if queue.is_empty() { asked.unwrap_or(QUEUE) } else { queue };
            spec.insert("queue".into(), queue.into());
            if let Some(class) = policy.priority_class.as_deref().filter(|class| !class.is_empty()) {
                spec.insert("priorityClassName".into(), class.into());
            }
        }
        GangScheduler::Plugins(_) => {
            if let Some(seconds) = policy.schedule_timeout_seconds {
                spec.insert("scheduleTimeoutSeconds".into(), seconds.into());
            }
        }
    }
    let mut child = extra::owned(job, scheduler.resource(), &job.name, json!({ "spec": spec }));
    let annotations: Map<String, Value> = job
        .annotations
        .iter()
        .filter(|(name, _)| *name != labels::RECORD)
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    if let (false, Some(metadata)) =
        (annotations.is_empty(), child.body.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("annotations".into(), Value::Object(annotations));
    }
    child
}

/// What the gang asks for and its members do no longer is taken away: a merge patch keeps what it does not name.
fn retire(have: &Value, want: &mut Value) {
    let Some(had) = have.pointer("/spec/minResources").and_then(Value::as_object) else { return };
    let Some(spec) = want.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match spec.get_mut("minResources").and_then(Value::as_object_mut) {
        Some(wanted) => {
            for name in had.keys() {
                wanted.entry(name.clone()).or_insert(Value::Null);
            }
        }
        None => drop(spec.insert("minResources".into(), Value::Null)),
    }
}

/// What the first members ask for together. Those of higher priority come first, then those of roles that start first.
fn resources(job: &JobView, members: u32, priorities: &Priorities) -> Value {
    let class = |template: &Value| priorities.of(text_at(template, "/spec/priorityClassName"));
    let mut roles: Vec<&Role> = job.roles.iter().collect();
    roles.sort_by_key(|role| Reverse(class(&role.template)));
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut left = members;
    for role in roles {
        let pods = role.replicas.min(left);
        left -= pods;
        let containers = role.template.pointer("/spec/containers").and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            let asked = ["/resources/requests", "/resources/limits"];
            let amounts = asked.iter().find_map(|part| container.pointer(part)).and_then(Value::as_object);
            for (name, amount) in amounts.into_iter().flatten() {
                let amount = quantity::read(amount).unwrap_or_default().times(pods);
                let sum = sums.entry(name.clone()).or_default();
                *sum = sum.plus(amount);
            }
        }
        if left == 0 {
            break;
        }
    }
    Value::Object(sums.into_iter().map(|(name, sum)| (name, sum.render().into())).collect())
}

/// Tells a pod which gang it is in. A scheduler that the user chose stays.
pub(crate) fn decorate(scheduler: &GangScheduler, job: &JobView, role: &str, pod: &mut PodDraft) {
    pod.default_spec("schedulerName", scheduler.name());
    match scheduler {
        GangScheduler::Volcano => {
            pod.set_annotation("scheduling.k8s.io/group-name", job.name.as_str());
            pod.set_annotation("volcano.sh/task-spec", role);
        }
        GangScheduler::Plugins(_) => pod.set_label("scheduling.x-k8s.io/pod-group", job.name.as_str()),
    }
}

/// Says so when pods are created that another scheduler places.
pub(crate) fn tell_other_scheduler(draft: &mut Draft<'_>) {
    let Some(scheduler) = draft.seen.options.gang.as_ref() else {
        return;
    };
    let other = |template: &Value| {
        let name = text_at(template, "/spec/schedulerName");
        !name.is_empty() && name != scheduler.name()
    };
    if draft.job().roles.iter().any(|role| other(&role.template)) {
        let message =
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten";
        draft.tell(Notice::warning(event::TEMPLATE_SCHEDULER, message));
    }
}
