//! A job that has ended: clean up what the policy says, then wait for the time to live.

use serde_json::json;
use trainyard_api::CleanPodPolicy;

use crate::action::{Action, Resource, Why};
use crate::conditions::is_finished;
use crate::job::add_seconds;
use crate::plan::{Draft, Flow};
use crate::pod::{Phase, PodView};
use crate::record::Sweep;
use crate::steps::{extras, restart};

/// The smallest deadline a pod can have.
const PASSED: i64 = 1;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    if !is_finished(&draft.status) {
        return Flow::Go;
    }
    if draft.status.completion_time.is_none() {
        // Another operator may have left it out, and a time to live needs it.
        draft.status.completion_time = Some(draft.stamp());
    }
    after_end(draft);
    Flow::Done
}

/// What follows from the end of a job, whether it ended long ago or in this very plan.
pub(crate) fn after_end(draft: &mut Draft<'_>) {
    clean_up(draft);
    extras::ended(draft);
    time_to_live(draft);
}

fn clean_up(draft: &mut Draft<'_>) {
    stop_restarts(draft);
    let policy = draft.job().policy.clean;
    let goes = |pod: &PodView| match policy {
        CleanPodPolicy::All => true,
        CleanPodPolicy::Running => !pod.phase.is_over(),
        CleanPodPolicy::None => is_swept(draft, pod),
    };
    let going: Vec<&PodView> = draft.seen.pods.iter().filter(|pod| goes(pod)).collect();
    // A service without a pod that stays has nobody to lead to, also when its pod went earlier.
    let stays = |name: &str| draft.seen.pods.iter().any(|pod| *pod.name == *name && !goes(pod));
    let idle: Vec<_> = match policy {
        CleanPodPolicy::None => Vec::new(),
        CleanPodPolicy::All | CleanPodPolicy::Running => {
            draft.seen.services.iter().filter(|service| !stays(&service.name)).collect()
        }
    };
    for pod in going {
        draft.delete_pod(pod, Why::CleanUp);
    }
    for service in idle {
        draft.delete_service(service, Why::CleanUp);
    }
}

/// Which pods go although the policy keeps them. A pod that has not started would start later and train for nobody.
fn is_swept(draft: &Draft<'_>, pod: &PodView) -> bool {
    let is_stray = || draft.slots.strays().iter().any(|stray| stray.uid == pod.uid);
    match draft.record.sweep {
        _ if pod.phase == Phase::Pending => true,
        Sweep::Unstarted => false,
        Sweep::Beyond => !pod.phase.is_over() && is_stray(),
        Sweep::Unended => !pod.phase.is_over(),
    }
}

/// Nothing starts again after the end, also where pods are kept: a pod whose container is down and would be restarted
/// in place is given a deadline that has passed. The kubelet then leaves it alone, log and all; otherwise it would go on
/// restarting it far beyond any limit. Where the limit was reached, that holds for what the kubelet has restarted
/// meanwhile, too.
fn stop_restarts(draft: &mut Draft<'_>) {
    if draft.job().policy.clean != CleanPodPolicy::None {
        return;
    }
    let over = restart::budget_is_used_up(draft);
    for slot in draft.job().slots() {
        let goes_on = |pod: &&PodView| {
            let again = over && pod.restarts_of(slot.role.restart) > 0 && !pod.phase.is_over();
            again || pod.is_down(slot.role.restart)
        };
        let Some(pod) = draft.slots.pod(slot).filter(goes_on) else { continue };
        if pod.deleting.is_some() || pod.active_deadline == Some(PASSED) {
            continue;
        }
        let patch = json!({ "metadata": { "uid": &*pod.uid }, "spec": { "activeDeadlineSeconds": PASSED } });
        let (name, uid) = (pod.name.to_string(), pod.uid.to_string());
        draft.act(Action::Amend { what: &Resource::POD, name, uid, patch });
    }
}

fn time_to_live(draft: &mut Draft<'_>) {
    let end = draft.status.completion_time.as_ref().map(|time| time.0);
    let (Some(ttl), Some(end)) = (draft.job().policy.ttl, end) else {
        return;
    };
    let Some(due) = add_seconds(end, ttl) else { return };
    if due <= draft.now() {
        let uid = draft.job().uid.clone();
        draft.act(Action::DeleteJob { uid });
        draft.say("terminal", "ttlSecondsAfterFinished is over: the job is deleted");
    } else {
        draft.wake_at(due);
        draft.say("terminal", format!("the job is deleted at {due}"));
    }
}
