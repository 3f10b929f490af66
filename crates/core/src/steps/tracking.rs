//! Pods that stay until what became of them is written down.
//!
//! A pod that ends and is deleted while nobody looks leaves nothing behind, and a replica that had succeeded would run
//! again. So each pod is given a finalizer, where the operator was told to. It is taken off once nothing is to be learnt
//! from the pod any more: its end is in the record *as it is stored*, or the job has ended, or goes.

use crate::action::Action;
use crate::conditions::is_finished;
use crate::plan::Draft;
use crate::pod::PodView;
use crate::record::Record;
use crate::steps::tally::is_current;

/// Comes after all other steps, whichever of them had the last word.
pub(crate) fn apply(draft: &mut Draft<'_>) {
    if !draft.seen.pods.iter().any(|pod| pod.tracked) {
        return;
    }
    let job = draft.job();
    if is_finished(&job.status) || job.deleting {
        for action in release_all(draft.seen.pods) {
            draft.act(action);
        }
        return;
    }
    if is_finished(&draft.status) {
        // That it has ended is not stored yet.
        return;
    }
    let slots = job.slots().filter_map(|slot| Some((draft.slots.pod(slot)?, slot.role, slot.index)));
    let strays = draft.slots.strays().iter();
    let strays = strays.filter_map(|pod| Some((*pod, job.role_by_label(&pod.role)?, pod.index?)));
    let known = slots.chain(strays).filter(|(pod, role, index)| is_settled(draft, pod, &role.name, *index));
    let mut settled: Vec<&PodView> = known.map(|(pod, ..)| pod).collect();
    let unknown = |pod: &&PodView| pod.index.is_none() || job.role_by_label(&pod.role).is_none();
    settled.extend(draft.slots.strays().iter().copied().filter(unknown));
    for pod in settled.into_iter().filter(|pod| pod.tracked) {
        draft.act(release(pod));
    }
}

/// Lets go of pods, whatever became of them: nobody is left who would want to know.
pub fn release_all(pods: &[PodView]) -> Vec<Action> {
    pods.iter().filter(|pod| pod.tracked).map(release).collect()
}

fn release(pod: &PodView) -> Action {
    Action::Release { name: pod.name.to_string(), uid: pod.uid.to_string() }
}

/// True when the stored record has all that is to be learnt from the pod.
fn is_settled(draft: &Draft<'_>, pod: &PodView, role: &str, index: u32) -> bool {
    let stored = &draft.job().record;
    if is_past(pod, stored, role, index) {
        return true;
    }
    if is_invented(pod, &draft.record, role, index) {
        return true;
    }
    if !is_current(pod, stored, role, index) || !(pod.phase.is_over() || pod.deleting.is_some()) {
        return false;
    }
    if pod.has_succeeded(draft.framework.facts().container) {
        return stored.is_finished(role, index);
    }
    // Nothing follows from its end: otherwise this plan would have raised a number.
    is_current(pod, &draft.record, role, index)
}

/// True when the record knows of a successor.
fn is_past(pod: &PodView, record: &Record, role: &str, index: u32) -> bool {
    (pod.attempt, pod.incarnation) < (record.attempt, record.incarnation(role, index))
}

/// True when not even this plan believes the pod's numbers: somebody wrote them there.
fn is_invented(pod: &PodView, planned: &Record, role: &str, index: u32) -> bool {
    (pod.attempt, pod.incarnation) > (planned.attempt, planned.incarnation(role, index))
}
