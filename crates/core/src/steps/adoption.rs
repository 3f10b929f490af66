//! What is known of earlier attempts, from the record and from the pods themselves.
//!
//! Users replace objects without their annotations. So each pod carries its own attempt, and the larger number
//! wins: a job that lost its record goes on where its pods are, and does not take them for leftovers.

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
    let mut replaced = 0_u32;
    for slot in job.slots() {
        let Some(pod) = slots.pod(slot).filter(|pod| pod.attempt == record.attempt) else {
            continue;
        };
        record.raise(&slot.role.name, slot.index, pod.incarnation);
        replaced = replaced.saturating_add(pod.incarnation);
    }
    if !job.has_record {
        record.restarts = record.restarts.max(replaced);
    }
    record
}
