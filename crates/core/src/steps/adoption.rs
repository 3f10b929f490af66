//! What is known of earlier attempts, from the record and from the pods themselves.
//!
//! Users replace objects without their annotations. So each pod carries its own attempt, the budget that was used when it
//! was created, and the ports of its attempt. The larger number wins: a job that lost its record goes on where its pods
//! are, does not take them for leftovers, and has neither more nor less of its budget than before.
//!
//! Users can write those numbers, too. Pods of two attempts never live side by side, because the later ones wait until the
//! earlier ones are gone. So where pods contradict each other the record decides, and without one all of them start anew:
//! replicas of two attempts would look for each other at different ports.

use crate::conditions::is_finished;
use crate::pod::PodView;
use crate::record::Record;
use crate::seen::Seen;
use crate::steps::slots::Slots;

/// The record to plan with.
pub(crate) fn record(seen: &Seen<'_>, slots: &Slots<'_>) -> Record {
    let job = seen.job;
    let mut record = job.record.clone();
    match attempt(seen) {
        Believed::Record => {}
        Believed::Pods(attempt) => record.start_attempt(attempt),
        Believed::Nobody { newest } => {
            let pods = job.slots().filter_map(|slot| Some((slot, slots.pod(slot)?)));
            let in_place = pods.map(|(slot, pod)| pod.restarts_of(slot.role.restart));
            record.restarts = in_place.fold(record.restarts, u32::saturating_add);
            record.start_attempt(newest.saturating_add(1));
        }
    }
    for slot in job.slots() {
        let believed = |pod: &&PodView| pod.attempt == record.attempt && pod.incarnation <= Record::LARGEST;
        if let Some(pod) = slots.pod(slot).filter(believed) {
            record.raise(&slot.role.name, slot.index, pod.incarnation);
        }
    }
    let used = seen.pods.iter().map(|pod| pod.used).max().unwrap_or(0);
    record.restarts = record.restarts.max(used);
    let current = seen.pods.iter().filter(|pod| pod.attempt == record.attempt);
    record.ports = record.ports.or_else(|| current.into_iter().find_map(|pod| pod.ports));
    record.begun |= !job.has_record && job.start_deadline().is_some() && all_had_started(seen);
    record
}

/// Who knows the job's attempt.
enum Believed {
    Record,
    /// The record is lost or an old one, and the pods agree about this attempt.
    Pods(u32),
    /// The record is lost or an old one, and the pods contradict each other.
    Nobody {
        newest: u32,
    },
}

fn attempt(seen: &Seen<'_>) -> Believed {
    let job = seen.job;
    let known = job.record.attempt;
    // Of pods that go anyway nothing follows, unless they are all that is known.
    let told = seen.pods.iter().filter(|pod| pod.deleting.is_none() || !job.has_record);
    let told = told.map(|pod| pod.attempt).filter(|attempt| *attempt <= Record::LARGEST);
    let newest = told.clone().max().unwrap_or(0);
    let stands = newest <= known || (job.has_record && told.clone().any(|attempt| attempt == known));
    if stands || is_finished(&job.status) {
        Believed::Record
    } else if told.clone().all(|attempt| attempt == newest) {
        Believed::Pods(newest)
    } else {
        Believed::Nobody { newest }
    }
}

/// True when the status says that every replica had started.
fn all_had_started(seen: &Seen<'_>) -> bool {
    let counts = seen.job.status.replica_statuses.values();
    let started = counts.flat_map(|role| [role.active, role.succeeded, role.failed]).flatten();
    let started: i64 = started.map(i64::from).sum();
    started > 0 && started >= i64::from(seen.job.total_replicas())
}
