//! What the engine must remember across crashes, and nothing else.
//!
//! It is small JSON in an annotation of the job, written with the job's resourceVersion *before* the actions that
//! rely on it. Everything in it only grows, so a plan made twice from the same view writes the same record, and a
//! pod from before a restart can be told from its successor by comparing numbers, not by remembering UIDs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::pod::PodView;
use crate::ranges;
use crate::seen::PortBlock;

/// Version of the format this build writes.
pub const VERSION: u32 = 2;

/// The engine's memory of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Format version. Fields unknown to an older build are ignored by it.
    #[serde(rename = "v")]
    pub version: u32,
    /// The identity of the job it is about. Users copy jobs with all their annotations: the copy has run nothing yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Attempt of the whole job: raised when all replicas start anew.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The first attempt after the job was last suspended: earlier ones are no restarts of this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub resumed: u32,
    /// Restarts that used the budget, besides those the kubelet still shows on live pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// How often each replica was replaced within the attempt, by role and index. Absent is 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "ranges::counts")]
    pub replaced: BTreeMap<String, BTreeMap<u32, u32>>,
    /// Replicas that succeeded in this attempt: their pods may vanish, they never run again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "ranges::sets")]
    pub finished: BTreeMap<String, BTreeSet<u32>>,
    /// All replicas had started, once. Known only of jobs that have a limit for that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// The host ports of this attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortBlock>,
    /// Which pods go at the end of the job, beside those that its policy names.
    #[serde(skip_serializing_if = "Sweep::is_default")]
    pub sweep: Sweep,
}

/// Which pods go at the end of a job, beside those that its `cleanPodPolicy` names. A pod that has not started goes always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sweep {
    /// No others.
    #[default]
    Unstarted,
    /// Those beyond the replicas: the job was scaled down to replicas that had all succeeded.
    Beyond,
    /// All that have not ended: the job gave its place up.
    Unended,
}

impl Sweep {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: VERSION,
            uid: String::new(),
            attempt: 0,
            resumed: 0,
            restarts: 0,
            replaced: BTreeMap::new(),
            finished: BTreeMap::new(),
            begun: false,
            ports: None,
            sweep: Sweep::default(),
        }
    }
}

impl Record {
    /// The largest number that a pod is believed: no job comes so far. A number that cannot be raised would never make room
    /// for the next one.
    pub const LARGEST: u32 = u32::MAX / 2;

    /// Reads the annotation.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let record: Self = serde_json::from_str(text)?;
        let numbers = record.replaced.values().flat_map(BTreeMap::values).chain([&record.attempt]);
        if numbers.into_iter().any(|number| *number == u32::MAX) {
            return Err(serde::de::Error::custom("a number in it cannot be raised any more"));
        }
        Ok(record)
    }

    /// The record of a job that nothing is remembered of.
    pub fn blank(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// The record of the job `uid` from its annotation, if the annotation is about this job. Older releases wrote no
    /// identity: such a record counts if the job has a status, which a copy does not have.
    pub fn of(uid: &str, annotation: Option<&str>, has_status: bool) -> Option<Self> {
        let record = annotation.and_then(|text| Self::parse(text).ok())?;
        let is_ours = if record.uid.is_empty() { has_status } else { record.uid == uid };
        is_ours.then(|| Self { version: VERSION, uid: uid.to_owned(), ..record })
    }

    /// The annotation's text.
    pub fn render(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// How often a replica was replaced in this attempt.
    pub fn incarnation(&self, role: &str, index: u32) -> u32 {
        self.replaced.get(role).and_then(|by_index| by_index.get(&index)).copied().unwrap_or(0)
    }

    /// Raises a replica's incarnation to at least `at_least`.
    pub fn raise(&mut self, role: &str, index: u32, at_least: u32) {
        if at_least > self.incarnation(role, index) {
            self.replaced.entry(role.to_owned()).or_default().insert(index, at_least);
        }
    }

    /// True when the replica succeeded in this attempt.
    pub fn is_finished(&self, role: &str, index: u32) -> bool {
        self.finished.get(role).is_some_and(|set| set.contains(&index))
    }

    /// Notes that a replica succeeded.
    pub fn finish(&mut self, role: &str, index: u32) {
        self.finished.entry(role.to_owned()).or_default().insert(index);
    }

    /// How often a replica had been started before this pod was created, since the job was last resumed.
    pub fn starts_before(&self, pod: &PodView) -> u32 {
        pod.attempt.saturating_sub(self.resumed).saturating_add(pod.incarnation)
    }

    /// Starts attempt `attempt` of the whole job: every replica runs anew, on new ports. The budget stays used.
    pub fn start_attempt(&mut self, attempt: u32) {
        self.attempt = attempt;
        self.replaced.clear();
        self.finished.clear();
        self.ports = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record { attempt: 3, restarts: 2, ..Record::blank("u") };
        for index in [0, 1, 2, 7] {
            record.finish("Worker", index);
        }
        record.raise("PS", 4, 9);
        record
    }

    #[test]
    fn a_record_is_about_one_job() {
        let text = record().render();
        assert_eq!(Record::of("u", Some(&text), false), Some(record()));
        assert_eq!(Record::of("copy", Some(&text), true), None);
        assert_eq!(Record::of("u", None, true), None);
        assert_eq!(Record::of("u", Some("{"), true), None);
    }

    #[test]
    fn a_number_that_cannot_be_raised_is_no_number() {
        for forged in [r#"{"attempt":4294967295}"#, r#"{"replaced":{"Worker":{"0":4294967295}}}"#] {
            assert_eq!(Record::of("u", Some(forged), true), None, "{forged}");
        }
    }

    #[test]
    fn a_record_of_an_older_release_is_about_a_job_that_has_a_status() {
        let old =
            r#"{"v":1,"attempt":3,"restarts":2,"replaced":{"PS":{"4":9}},"finished":{"Worker":[0,1,2,7]}}"#;
        assert_eq!(Record::of("u", Some(old), true), Some(record()));
        assert_eq!(Record::of("u", Some(old), false), None, "a copy has no status yet");
    }

    #[test]
    fn ten_thousand_replicas_fit_into_an_annotation() {
        let mut record = Record::blank("u");
        for index in 0..10_000 {
            record.finish("Worker", index);
            record.raise("Worker", index, 1 + index % 2);
        }
        let text = record.render();
        assert!(text.len() < 100_000, "{} bytes", text.len());
        assert_eq!(Record::parse(&text).ok(), Some(record));
    }
}
