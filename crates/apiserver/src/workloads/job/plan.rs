//! What a job does next. Pure: from one look at the job and its pods to what is to be created, deleted and counted.

use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::pods::Pod;
use super::indexes::Indexes;
use super::policy::{self, Meaning};
use crate::object::{at, is_deleting};

pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The first pause after a failed pod, doubled with each further one.
const FIRST_PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 600;
/// Pods created or deleted in one look.
const BURST: usize = 500;

/// How a job ended, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Everything a look decides.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) verdict: Option<Verdict>,
    /// Pods to be deleted; those of a suspended job and surplus ones do not count as failed.
    pub(super) delete: Vec<&'a Pod>,
    pub(super) uncounted: bool,
    /// Pods to be created: their index, or none.
    pub(super) create: Vec<Option<i64>>,
    pub(super) done: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Look again then.
    pub(super) again: Option<Duration>,
}

/// A job and its pods, with the questions one asks about them.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) job: &'a Value,
    pub(super) pods: &'a [Pod],
    pub(super) now: Timestamp,
}

pub(super) fn index_of(pod: &Pod) -> Option<i64> {
    pod.annotation(INDEX).parse().ok()
}

impl<'a> Case<'a> {
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        at(self.job, path).and_then(Value::as_i64)
    }

    pub(super) fn text(&self, path: &str) -> &'a str {
        at(self.job, path).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.text("spec.completionMode") == "Indexed"
    }

    pub(super) fn is_suspended(&self) -> bool {
        at(self.job, "spec.suspend") == Some(&Value::Bool(true))
    }

    pub(super) fn policy(&self) -> Option<&'a Value> {
        at(self.job, "spec.podFailurePolicy")
    }

    /// Whether a pod is replaced only once it really failed, and not when it is about to.
    pub(super) fn replaces_failed_only(&self) -> bool {
        self.text("spec.podReplacementPolicy") == "Failed" || self.policy().is_some()
    }

    pub(super) fn is_failed(&self, pod: &Pod) -> bool {
        pod.status.phase == "Failed"
            || (!self.replaces_failed_only() && pod.is_deleting() && pod.status.phase != "Succeeded")
    }

    fn is_valid(&self, pod: &Pod) -> bool {
        let completions = self.number("spec.completions").unwrap_or(i64::MAX);
        !self.is_indexed() || index_of(pod).is_some_and(|index| index < completions)
    }

    /// Whether a finished pod of an index stands for it.
    pub(super) fn counts_for_index(&self, pod: &Pod) -> bool {
        self.is_valid(pod)
    }

    pub(super) fn active(&self) -> Vec<&'a Pod> {
        self.pods.iter().filter(|pod| pod.is_active()).collect()
    }

    pub(super) fn terminating(&self) -> i64 {
        count(self.pods.iter().filter(|pod| pod.is_deleting() && !pod.is_over()))
    }

    /// The uids whose pods are over but not yet in the counters.
    pub(super) fn uncounted(&self, kind: &str) -> BTreeSet<&'a str> {
        let path = format!("status.uncountedTerminatedPods.{kind}");
        let list = at(self.job, &path).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(super) fn condition(&self, name: &str) -> Option<&'a Value> {
        let list = at(self.job, "status.conditions").and_then(Value::as_array);
        list.into_iter().flatten().find(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(name)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    }

    fn succeeded(&self) -> i64 {
        let known = self.uncounted("succeeded");
        let new = self.pods.iter().filter(|pod| {
            pod.has_finalizer(FINALIZER)
                && pod.status.phase == "Succeeded"
                && !known.contains(pod.metadata.uid.as_str())
        });
        self.number("status.succeeded").unwrap_or(0) + count(new) + count(known.iter())
    }

    fn failed(&self) -> i64 {
        let known = self.uncounted("failed");
        let new = self.pods.iter().filter(|pod| {
            pod.has_finalizer(FINALIZER)
                && self.is_failed(pod)
                && self.is_valid(pod)
                && !known.contains(pod.metadata.uid.as_str())
                && policy::meaning(self.policy(), pod) != Meaning::Ignored
        });
        self.number("status.failed").unwrap_or(0) + count(new) + count(known.iter())
    }

    fn done(&self) -> Indexes {
        let completions = self.number("spec.completions").unwrap_or(0);
        let mut done = Indexes::parse(self.text("status.completedIndexes"), completions);
        let over = self.pods.iter().filter(|pod| pod.status.phase == "Succeeded");
        over.filter_map(index_of).filter(|index| *index < completions).for_each(|index| done.insert(index));
        done
    }

    /// How often each index failed, and which may not be tried again.
    fn failed_indexes(&self) -> Option<(BTreeMap<i64, i64>, Indexes)> {
        let limit = self.number("spec.backoffLimitPerIndex")?;
        let completions = self.number("spec.completions").unwrap_or(0);
        let mut failed = Indexes::parse(self.text("status.failedIndexes"), completions);
        let mut times: BTreeMap<i64, i64> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| self.is_failed(pod)) {
            let Some(index) = index_of(pod).filter(|index| *index < completions) else { continue };
            match policy::meaning(self.policy(), pod) {
                Meaning::Ignored => {}
                Meaning::FailsIndex => failed.insert(index),
                Meaning::Counts | Meaning::FailsJob(_) => *times.entry(index).or_default() += 1,
            }
        }
        times.iter().filter(|(_, times)| **times > limit).for_each(|(index, _)| failed.insert(*index));
        Some((times, failed))
    }

    /// Restarts in place count too, for pods that are restarted.
    fn restarted_too_often(&self) -> bool {
        if self.text("spec.template.spec.restartPolicy") != "OnFailure" {
            return false;
        }
        let limit = self.number("spec.backoffLimit").unwrap_or(6);
        let living =
            self.pods.iter().filter(|pod| ["Running", "Pending"].contains(&pod.status.phase.as_str()));
        let init =
            |pod: &Pod| pod.status.init_container_statuses.iter().map(|s| s.restart_count).sum::<i64>();
        let restarts: i64 = living.map(|pod| pod.restarts() + init(pod)).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// Seconds left before the job has been active for too long.
    fn deadline(&self) -> Option<i64> {
        let seconds = self.number("spec.activeDeadlineSeconds").filter(|_| !self.is_suspended())?;
        let start: Timestamp = self.text("status.startTime").parse().unwrap_or(self.now);
        Some(start.as_second() + seconds - self.now.as_second())
    }

    fn verdict(&self, done: &Indexes, failed: Option<&Indexes>) -> Option<Verdict> {
        let text = |condition: &Value, field: &str| {
            condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        for (name, success) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
            if let Some(condition) = self.condition(name) {
                let (reason, message) = (text(condition, "reason"), text(condition, "message"));
                return Some(Verdict { success, reason, message });
            }
        }
        let fail = |reason: &str, message: &str| {
            Some(Verdict { success: false, reason: reason.into(), message: message.into() })
        };
        let failures = self.pods.iter().filter(|pod| self.is_failed(pod));
        for pod in failures {
            if let Meaning::FailsJob(message) = policy::meaning(self.policy(), pod) {
                return fail("PodFailurePolicy", &message);
            }
        }
        if self.failed() > self.number("spec.backoffLimit").unwrap_or(6) || self.restarted_too_often() {
            return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if self.deadline().is_some_and(|left| left <= 0) {
            return fail("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if let Some(failed) = failed {
            let completions = self.number("spec.completions").unwrap_or(0);
            if self.number("spec.maxFailedIndexes").is_some_and(|max| failed.len() > max) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return fail("MaxFailedIndexesExceeded", message);
            }
            if !failed.is_empty() && failed.len() + done.len() >= completions {
                return fail("FailedIndexes", "Job has failed indexes");
            }
        }
        let completions = self.number("spec.completions").unwrap_or(0);
        let message = policy::success(at(self.job, "spec.successPolicy"), done, completions)?;
        Some(Verdict { success: true, reason: "SuccessPolicy".into(), message })
    }

    /// Decides everything.
    pub(super) fn plan(&self) -> Plan<'a> {
        let done = if self.is_indexed() { self.done() } else { Indexes::default() };
        let failed = self.failed_indexes();
        let mut plan = Plan {
            verdict: self.verdict(&done, failed.as_ref().map(|(_, failed)| failed)),
            again: self.deadline().filter(|left| *left > 0).map(|s| Duration::from_secs(s.unsigned_abs())),
            ..Plan::default()
        };
        let active = self.active();
        if plan.verdict.is_some() {
            plan.delete = active;
            plan.uncounted = false;
        } else {
            if !is_deleting(self.job) {
                self.manage(&active, &done, failed.as_ref(), &mut plan);
            }
            if self.is_complete(&done, &active, &plan) {
                let message = "Reached expected number of succeeded pods";
                let reason = "CompletionsReached".into();
                plan.verdict = Some(Verdict { success: true, reason, message: message.into() });
            }
        }
        plan.done = done;
        plan.failed_indexes = failed.map(|(_, failed)| failed);
        plan
    }

    fn reached(&self, done: &Indexes) -> i64 {
        if self.is_indexed() { done.len() } else { self.succeeded() }
    }

    fn is_complete(&self, done: &Indexes, active: &[&Pod], plan: &Plan<'_>) -> bool {
        let reached = self.reached(done);
        let none_left = active.len() == plan.delete.len() && plan.create.is_empty();
        none_left && self.number("spec.completions").map_or(reached > 0, |wanted| reached >= wanted)
    }

    fn manage(
        &self,
        active: &[&'a Pod],
        done: &Indexes,
        failed: Option<&(BTreeMap<i64, i64>, Indexes)>,
        plan: &mut Plan<'a>,
    ) {
        plan.uncounted = true;
        if self.is_suspended() {
            plan.delete = active.to_vec();
            return;
        }
        let (running, reached) = (count(active.iter()), self.reached(done));
        let parallelism = self.number("spec.parallelism").unwrap_or(1);
        let wanted = match self.number("spec.completions") {
            None if reached > 0 => running,
            None => parallelism,
            Some(completions) => (completions - reached).min(parallelism).max(0),
        };
        plan.delete = self.surplus(active, running - wanted);
        if !plan.delete.is_empty() {
            return;
        }
        let ending = if self.replaces_failed_only() { self.terminating() } else { 0 };
        let missing = usize::try_from(wanted - ending - running).unwrap_or(0).min(BURST);
        if missing == 0 {
            return;
        }
        if let Some(pause) = self.pause(failed.is_some()) {
            plan.again = Some(plan.again.map_or(pause, |again| again.min(pause)));
            return;
        }
        plan.create = if self.is_indexed() {
            let taken: BTreeSet<i64> = active.iter().filter_map(|pod| index_of(pod)).collect();
            let is_free = |index: &i64| {
                !done.has(*index)
                    && !taken.contains(index)
                    && failed.is_none_or(|(_, failed)| !failed.has(*index))
            };
            let completions = self.number("spec.completions").unwrap_or(0);
            (0..completions).filter(is_free).take(missing).map(Some).collect()
        } else {
            vec![None; missing]
        };
    }

    /// Active pods to be removed: those without a valid index or with one that is taken, then the least useful.
    fn surplus(&self, active: &[&'a Pod], too_many: i64) -> Vec<&'a Pod> {
        let mut seen = BTreeSet::new();
        let completions = self.number("spec.completions").unwrap_or(i64::MAX);
        let mut sorted = active.to_vec();
        sorted.sort_by_cached_key(|pod| pod.rank(0));
        let is_odd = |pod: &&Pod, seen: &mut BTreeSet<i64>| {
            self.is_indexed() && !index_of(pod).is_some_and(|i| i < completions && seen.insert(i))
        };
        // The most useful pod of an index keeps it.
        let (odd, mut rest): (Vec<&Pod>, Vec<&Pod>) =
            sorted.into_iter().rev().partition(|pod| is_odd(pod, &mut seen));
        rest.reverse();
        let more = usize::try_from(too_many - count(odd.iter())).unwrap_or(0);
        odd.into_iter().chain(rest.into_iter().take(more)).take(BURST).collect()
    }

    /// How long to wait after failures before the next pod.
    fn pause(&self, per_index: bool) -> Option<Duration> {
        if per_index {
            return None;
        }
        let ended = |pod: &&Pod| finished(pod).unwrap_or(self.now);
        let over = || self.pods.iter().filter(|pod| pod.is_over() || self.is_failed(pod));
        let success = over().filter(|pod| pod.status.phase == "Succeeded").map(|pod| ended(&pod)).max();
        let failures: Vec<Timestamp> = over()
            .filter(|pod| self.is_failed(pod))
            .map(|pod| ended(&pod))
            .filter(|at| success.is_none_or(|success| *at >= success))
            .collect();
        let last = failures.iter().max()?;
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(10);
        let pause = (FIRST_PAUSE << doublings).min(LONGEST_PAUSE);
        let left = last.as_second() + pause - self.now.as_second();
        (left > 0).then(|| Duration::from_secs(left.unsigned_abs()))
    }
}

/// When a pod ended: its last container, or when it began to end. One that says nothing never began.
fn finished(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ends = statuses.filter_map(|status| status.state.terminated.as_ref()?.finished_at);
    let started = || pod.metadata.creation_timestamp.parse().ok();
    ends.max().or(pod.metadata.deletion_timestamp).or_else(started)
}

fn count(items: impl Iterator) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}
