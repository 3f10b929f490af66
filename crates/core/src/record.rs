//! What the engine must remember across crashes, and nothing else.
//!
//! It is small JSON in an annotation of the job, written with the job's resourceVersion *before* the actions that
//! rely on it. Everything in it only grows, so a plan made twice from the same view writes the same record, and a
//! pod from before a restart can be told from its successor by comparing numbers, not by remembering UIDs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::seen::PortBlock;

/// Version of the format this build writes.
pub const VERSION: u32 = 1;

/// The engine's memory of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Format version. Fields unknown to an older build are ignored by it.
    #[serde(rename = "v")]
    pub version: u32,
    /// Attempt of the whole job: raised when all replicas start anew.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Restarts that used the budget, besides those the kubelet still shows on live pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// How often each replica was replaced within the attempt, by role and index. Absent is 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, BTreeMap<u32, u32>>,
    /// Replicas that succeeded in this attempt: their pods may vanish, they never run again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub finished: BTreeMap<String, BTreeSet<u32>>,
    /// All replicas had started, once. Known only of jobs that have a limit for that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// The host ports of this attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortBlock>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: VERSION,
            attempt: 0,
            restarts: 0,
            replaced: BTreeMap::new(),
            finished: BTreeMap::new(),
            begun: false,
            ports: None,
        }
    }
}

impl Record {
    /// Reads the annotation.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
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

    /// Starts attempt `attempt` of the whole job: every replica runs anew, on new ports. The budget stays used.
    pub fn start_attempt(&mut self, attempt: u32) {
        self.attempt = attempt;
        self.replaced.clear();
        self.finished.clear();
        self.ports = None;
    }
}
