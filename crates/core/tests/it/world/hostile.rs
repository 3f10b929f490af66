//! What careless users, busy clusters and nodes with wrong clocks do: all of it legal.

use jiff::SignedDuration;
use serde_json::Value;
use trainyard_api::labels;
use trainyard_api::reasons::suffix;
use trainyard_core::conditions::{is_true, types};
use trainyard_core::framework::{decider, has_leader};

use super::*;

/// What somebody writes where the record should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// No record.
    Nonsense,
    /// Numbers larger than any that is true.
    Huge,
    /// A record of another job, in which every replica has finished and the budget is used.
    OfAnother,
    /// Much more text than a record.
    Long,
}

/// What somebody writes on a pod, where the operator wrote its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodForgery {
    Attempt(u32),
    Incarnation(u32),
    /// All annotations are removed.
    Stripped,
}

impl World {
    /// A new job is made from the manifest of this one: another UID, no children, and the annotations of the old one. A
    /// backup restores the status too.
    pub(crate) fn copy(&mut self, with_status: bool) {
        let Some(old) = self.state.job.clone() else { return };
        let annotation = old.has_record.then(|| old.record.render());
        self.uid();
        let uid = format!("copy-{}", self.next_uid);
        let (pods, services, extras) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        self.state = State { job: Some(old), broken: self.state.broken, pods, services, extras };
        self.write_job(|job| {
            job.uid = uid;
            if !with_status {
                job.status = trainyard_api::JobStatus::default();
            }
        });
        self.annotate(annotation);
        self.ended_before = self.is_over();
        self.failures.clear();
        self.forgot = false;
        // Caches keep children by the UID of their owner: they have none of this one.
        self.history = VecDeque::from([Arc::new(self.state.clone())]);
        (self.successes, self.starts) = (Vec::new(), Vec::new());
        (self.runs, self.owing) = (BTreeMap::new(), BTreeMap::new());
    }

    /// The annotation that holds the record is set to this, or removed; the engine reads it as it reads any object.
    fn annotate(&mut self, annotation: Option<String>) {
        let Some(job) = self.job() else { return };
        let mut object = self.manifest.clone();
        object["metadata"]["uid"] = job.uid.as_str().into();
        object["status"] = serde_json::to_value(&job.status).unwrap();
        if let Some(text) = annotation {
            object["metadata"]["annotations"][labels::RECORD] = text.into();
        }
        let catalog = Catalog::default();
        let read = decode(&catalog, job.kind, &object).unwrap_or_else(|bad| panic!("{}", bad.error)).job;
        self.write_job(|job| (job.record, job.has_record) = (read.record, read.has_record));
        self.forgot = true;
    }

    /// A user replaces the job object and forgets the annotations.
    pub(crate) fn lose_record(&mut self) {
        self.annotate(None);
    }

    /// Somebody writes something else where the record should be.
    pub(crate) fn forge_record(&mut self, what: Forgery) {
        let text = match what {
            Forgery::Nonsense => "[\"no\", {\"record\": 1}]".to_owned(),
            Forgery::Huge => r#"{"v":4294967295,"attempt":1000000,"restarts":4294967295}"#.to_owned(),
            Forgery::OfAnother => self.record_of_another(),
            Forgery::Long => "{\"v\":1}".to_owned() + &" ".repeat(250_000),
        };
        self.annotate(Some(text));
    }

    /// Somebody writes other numbers on a pod, or removes them.
    pub(crate) fn forge_pod(&mut self, name: &str, what: PodForgery) {
        let Some(pod) = self.state.pods.get_mut(name) else { return };
        let view = &mut pod.view;
        match what {
            PodForgery::Attempt(attempt) => view.attempt = attempt,
            PodForgery::Incarnation(incarnation) => view.incarnation = incarnation,
            PodForgery::Stripped => (view.attempt, view.incarnation, view.used, view.ports) = (0, 0, 0, None),
        }
        if view.phase == Phase::Succeeded {
            // Its work is done, whatever is written on it.
            let success = (name.to_owned(), view.attempt);
            self.successes.push(success);
        }
        self.forgot = true;
        self.changed();
    }

    fn record_of_another(&self) -> String {
        let Some(job) = self.job() else { return String::new() };
        let mut record = job.record.clone();
        record.restarts = 100;
        for slot in job.slots() {
            record.finish(&slot.role.name, slot.index);
        }
        let mut record: Value = serde_json::from_str(&record.render()).unwrap();
        record["uid"] = "the-uid-of-another".into();
        record.to_string()
    }

    /// A pod is asked to end, does as it is told, and ends with this code. The operator sees all of it at once.
    pub(crate) fn drain(&mut self, name: &str, code: i32, evicted: bool) {
        let now = self.now;
        let Some(pod) = self.state.pods.get_mut(name).filter(|pod| pod.view.phase == Phase::Running) else {
            return;
        };
        if pod.view.deleting.is_some() || pod.view.containers[0].state != ContainerState::Running {
            return;
        }
        pod.view.deleting = Some(now);
        if evicted {
            pod.view.disruption = Some("EvictionByEvictionAPI".into());
            pod.view.disrupted = Some(now);
        }
        pod.view.seen_over = Some(now);
        let time = Some(shifted(now, pod.skew));
        pod.view.containers[0].state =
            ContainerState::Terminated { exit: code, reason: None, started: time, finished: time };
        pod.view.phase = if code == 0 { Phase::Succeeded } else { Phase::Failed };
        self.owing.insert(name.to_owned(), false);
        self.changed();
    }

    /// The node of a pod refuses it before any container starts; says whether it did.
    pub(crate) fn refuse(&mut self, name: &str, reason: &str) -> bool {
        let waits = |pod: &&mut TruePod| pod.view.phase == Phase::Pending && pod.view.deleting.is_none();
        let Some(pod) = self.state.pods.get_mut(name).filter(waits) else { return false };
        pod.view.phase = Phase::Failed;
        pod.view.seen_over = Some(self.now);
        pod.view.reason = Some(reason.into());
        self.owing.insert(name.to_owned(), false);
        self.changed();
        true
    }

    /// A pod that was asked to end goes; says whether it did.
    pub(crate) fn leaves(&mut self, name: &str) -> bool {
        let asked = self.state.pods.get(name).is_some_and(|pod| pod.view.deleting.is_some());
        asked && self.tick(name)
    }

    /// True while pods are there that their successors wait for.
    pub(crate) fn has_leftovers(&self) -> bool {
        let Some(job) = self.job() else { return false };
        self.state
            .pods
            .values()
            .any(|pod| pod.view.attempt != job.record.attempt || pod.view.deleting.is_some())
    }

    /// The pods that run and that nobody asked to end.
    pub(crate) fn running(&self) -> Vec<&str> {
        let runs = |pod: &&TruePod| pod.view.phase == Phase::Running && pod.view.deleting.is_none();
        self.state.pods.values().filter(runs).map(|pod| &*pod.view.name).collect()
    }

    /// A user makes the spec of the job invalid, or valid again.
    pub(crate) fn break_spec(&mut self, broken: bool) {
        if self.state.broken != broken {
            self.state.broken = broken;
            self.write_job(|_| {});
        }
    }

    /// The clock of a pod's node is wrong by so many seconds.
    pub(crate) fn skew(&mut self, name: &str, seconds: i64) {
        if let Some(pod) = self.state.pods.get_mut(name).filter(|pod| pod.view.phase == Phase::Pending) {
            pod.skew = seconds;
        }
    }

    /// The server refuses to store a part of the job from now on: a webhook is down, or the object is too large.
    pub(crate) fn refuse_writes(&mut self, what: &'static Resource, code: u16) {
        self.refuses.retain(|(part, _)| *part != what);
        self.refuses.push((what, code));
    }

    /// The server stores everything again, and the operator is another one: it knows of no refusal.
    pub(crate) fn grant_writes(&mut self) {
        (self.refuses, self.failures) = (Vec::new(), Vec::new());
    }

    /// True when the status says that the server refuses the record.
    pub(crate) fn says_refused(&self) -> bool {
        let conditions = self.job().map(|job| job.status.conditions.iter());
        let reasons = conditions.into_iter().flatten().filter_map(|condition| condition.reason.as_deref());
        reasons.into_iter().any(|reason| reason.ends_with(suffix::RECORD))
    }

    /// Whether the server refuses to store this part of the job. The operator remembers that as it does in a cluster.
    pub(super) fn is_refused(&mut self, what: &'static Resource) -> bool {
        let known = self.failures.iter().position(|failure| failure.what == what);
        let before = known.map(|at| self.failures.remove(at));
        let Some((_, code)) = self.refuses.iter().copied().find(|(part, _)| *part == what) else {
            return false;
        };
        let count = before.map_or(1, |failure| failure.count + 1);
        let (name, message) = ("j".to_owned(), "refused".to_owned());
        self.failures.push(WriteFailure { what, name, code, message, at: self.now, count });
        true
    }

    /// Why the job must not have Succeeded, if it has.
    pub(crate) fn unearned(&self) -> Option<String> {
        let job = self.job().filter(|job| is_true(&job.status, types::SUCCEEDED) && !self.ended_before)?;
        let facts = self.framework().facts();
        let decider = decider(facts, job)?;
        let first_decides = facts.name == "tensorflow"
            && !has_leader(facts, job)
            && job.options.get("successPolicy").and_then(Value::as_str) != Some("AllWorkers");
        let slots = job.slots().filter(|slot| slot.role.name == decider);
        let slots = slots.filter(|slot| !first_decides || slot.index == 0);
        // Somebody may have written another attempt on the pod, and the server may not have stored what follows from that.
        let forged = |name: &str| self.state.pods.get(name).map(|pod| pod.view.attempt);
        let worked = |name: &String, attempt: u32| self.successes.contains(&(name.clone(), attempt));
        let idle = |name: &String| {
            !worked(name, job.record.attempt) && !forged(name).is_some_and(|attempt| worked(name, attempt))
        };
        slots.map(|slot| slot.child_name(job)).find(idle).map(|name| format!("{name} has not done its work"))
    }

    /// Pods that live in another attempt than the job, without having been asked to end: they and the others would look for
    /// each other at different ports.
    pub(crate) fn strangers(&self) -> Vec<&str> {
        let Some(job) = self.job().filter(|_| !self.is_over()) else { return Vec::new() };
        let lives = |pod: &&TruePod| !pod.view.phase.is_over() && pod.view.deleting.is_none();
        let others = |pod: &&TruePod| pod.view.attempt != job.record.attempt;
        self.state.pods.values().filter(lives).filter(others).map(|pod| &*pod.view.name).collect()
    }

    /// Pods that wait to start although their job has ended and everything was done about that.
    pub(crate) fn yet_to_start(&self) -> Vec<&str> {
        let waits = |pod: &&TruePod| pod.view.phase == Phase::Pending && pod.view.deleting.is_none();
        let pods = self.state.pods.values().filter(waits).filter(|_| self.is_over());
        pods.map(|pod| &*pod.view.name).collect()
    }
}

/// A moment by a clock that is wrong by so many seconds.
pub(super) fn shifted(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}
