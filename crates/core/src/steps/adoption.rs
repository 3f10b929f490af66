//! What is known of earlier attempts, from the record and from the pods themselves.
//!
//! Users replace objects without their annotations. So each pod carries its own attempt, the budget that was used when it
//! was created, and the ports of its attempt. The larger number wins: a job that lost its record goes on where its pods
//! are, does not take them for leftovers, and has neither more nor less of its budget than before.

use crate::record::Record;
use crate::seen::Seen;
use crate::steps::slots::Slots;

/// The record to plan with.
pub(crate) fn record(seen: &Seen<'_>, slots: &Slots<'_>) -> Record {
    let job = seen.job;
    let mut record = job.record.clone();
    let newest = seen.pods.iter().map(|pod| pod.attempt).max().unwrap_or(0);
    if newest > record.attempt {
        record.start_attempt(newest);
    }
    for slot in job.slots() {
        if let Some(pod) = slots.pod(slot).filter(|pod| pod.attempt == record.attempt) {
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

/// True when the status says that every replica had started.
fn all_had_started(seen: &Seen<'_>) -> bool {
    let counts = seen.job.status.replica_statuses.values();
    let started = counts.flat_map(|role| [role.active, role.succeeded, role.failed]).flatten();
    let started: i64 = started.map(i64::from).sum();
    started > 0 && started >= i64::from(seen.job.total_replicas())
}
