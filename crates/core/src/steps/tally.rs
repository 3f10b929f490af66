//! Counts: how many replicas of each role run, succeeded and failed.

use std::collections::{BTreeMap, BTreeSet};

use trainyard_api::RestartPolicy;

use crate::job::{JobView, Slot};
use crate::pod::{Phase, PodView};
use crate::record::Record;
use crate::seen::Seen;
use crate::steps::slots::Slots;

/// Replicas of one role by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many the spec asks for.
    pub wanted: u32,
    /// How many run.
    pub active: u32,
    /// How many succeeded in this attempt, pods that are gone included.
    pub succeeded: u32,
    /// How many failed, or are being ended while they run.
    pub failed: u32,
}

/// What is seen of a job's replicas, counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<String, Count>,
    succeeded: BTreeSet<(String, u32)>,
}

impl Tally {
    /// Counts what is seen.
    pub(crate) fn count(seen: &Seen<'_>, slots: &Slots<'_>, record: &Record, container: &str) -> Self {
        let mut tally = Self::default();
        for role in &seen.job.roles {
            tally.counts.entry(role.name.clone()).or_default().wanted = role.replicas;
        }
        for slot in seen.job.slots() {
            let role = &slot.role.name;
            let pod = slots.pod(slot);
            let count = tally.counts.entry(role.clone()).or_default();
            let current = pod.filter(|pod| is_current(pod, record, role, slot.index));
            let succeeded = current.is_some_and(|pod| is_done(seen.job, slot, pod, container));
            if succeeded || record.is_finished(role, slot.index) {
                count.succeeded += 1;
                tally.succeeded.insert((role.clone(), slot.index));
                continue;
            }
            // A pod that runs but is being ended, by whomever, is a replica that is down.
            let stays = current.is_some_and(|pod| pod.deleting.is_none());
            match pod.map(|pod| pod.phase) {
                Some(Phase::Running) if stays => count.active += 1,
                // All replicas start anew, or the user suspended the job: what ends now has not failed.
                Some(_) if pod.is_some_and(|pod| pod.attempt < record.attempt) => {}
                Some(Phase::Running | Phase::Failed) => count.failed += 1,
                Some(Phase::Succeeded) if current.is_some() => count.failed += 1,
                Some(Phase::Pending | Phase::Unknown | Phase::Succeeded) | None => {}
            }
        }
        tally
    }

    /// The counts of one role.
    pub fn of(&self, role: &str) -> Count {
        self.counts.get(role).copied().unwrap_or_default()
    }

    /// True when this replica succeeded in this attempt.
    pub fn slot_succeeded(&self, role: &str, index: u32) -> bool {
        self.succeeded.contains(&(role.to_owned(), index))
    }

    /// True when any replica runs, or has run and its pod is still there.
    pub(crate) fn any_ran(&self) -> bool {
        self.counts.values().any(|count| count.active + count.failed + count.succeeded > 0)
    }

    /// True when any replica runs.
    pub fn any_active(&self) -> bool {
        self.counts.values().any(|count| count.active > 0)
    }
}

/// True when the replica of this pod has done its work and never runs again.
pub(crate) fn is_done(job: &JobView, slot: Slot<'_>, pod: &PodView, container: &str) -> bool {
    // Where all replicas restart together it is not the kubelet that starts a container again whatever its end was.
    let starts_again = slot.role.restart == RestartPolicy::Always && job.restarts_as_one();
    pod.has_succeeded(container) && !starts_again
}

/// True when the pod is the one the replica is supposed to have now, not a predecessor.
pub(crate) fn is_current(pod: &PodView, record: &Record, role: &str, index: u32) -> bool {
    pod.attempt == record.attempt && pod.incarnation == record.incarnation(role, index)
}
