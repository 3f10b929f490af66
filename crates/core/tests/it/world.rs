//! A model of the world around the engine: an API server with history, a kubelet, and an operator that may stop
//! in the middle of anything.
//!
//! It is deliberately simple and deliberately hostile: views may be old, any subset of a plan's actions may have
//! been carried out, pods end as a table says, users delete and scale what they like.

mod hostile;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trainyard_api::{CleanPodPolicy, RestartPolicy, labels};
use trainyard_core::conditions::{is_finished, is_true, types};
use trainyard_core::invalid::plan_broken;
use trainyard_core::*;

use crate::job_gen::{JobSpec, Ports};

use hostile::shifted;
pub(crate) use hostile::{Forgery, PodForgery};

/// The pod as it really is.
#[derive(Clone, Debug)]
pub(crate) struct TruePod {
    pub(crate) view: PodView,
    policy: String,
    /// The record said that the replica had succeeded when the pod was created all the same.
    late: bool,
    /// Its node has nothing more to do with it.
    done: bool,
    /// Seconds by which the clock of its node is wrong.
    skew: i64,
}

/// One consistent state of everything stored.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) job: Option<Arc<JobView>>,
    /// The job's spec is invalid.
    pub(crate) broken: bool,
    pub(crate) pods: BTreeMap<String, TruePod>,
    pub(crate) services: BTreeMap<String, ServiceView>,
    /// By kind and name.
    pub(crate) extras: BTreeMap<(&'static str, String), ExtraView>,
}

/// An exit code that never comes: the replica runs on.
pub(crate) const RUNS_ON: i32 = i32::MIN;

/// One start of a replica's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) slot: String,
    pub(crate) attempt: u32,
    /// The start follows an end that the user has to answer for.
    pub(crate) costs: bool,
    /// The job had ended: whatever its pods do now is between them and the kubelet.
    pub(crate) after_end: bool,
    /// The pod was created although the record said that the replica had succeeded.
    pub(crate) after_success: bool,
    /// A pod of an earlier attempt was still alive.
    pub(crate) beside_old: bool,
}

/// The world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) state: State,
    /// The last states: how old a view may be.
    history: VecDeque<Arc<State>>,
    pub(crate) now: Timestamp,
    pub(crate) starts: Vec<Start>,
    pub(crate) options: Options,
    /// The job's object as it was created.
    manifest: Value,
    framework: &'static str,
    /// Exit code by run of a slot; beyond the table the last entry repeats, `None` runs for ever.
    exits: BTreeMap<String, Vec<i32>>,
    runs: BTreeMap<String, usize>,
    /// Slots that succeeded by themselves, and in which attempt.
    pub(crate) successes: Vec<(String, u32)>,
    /// Slots whose last end was the user's own failure.
    owing: BTreeMap<String, bool>,
    /// The job was made from one that had ended, status and all.
    ended_before: bool,
    /// The record was lost or overwritten: what only it could know is not known.
    forgot: bool,
    next_uid: u32,
    version: u64,
    ports: PortSpace,
    /// Which parts of the job the server refuses to store, and with which code.
    refuses: Vec<(&'static Resource, u16)>,
    /// What the operator remembers of that.
    failures: Vec<WriteFailure>,
}

/// How much of a plan is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    /// Stop before the record (0), before the status (1), before the actions (2), or not at all (3).
    pub(crate) stage: u8,
    /// Which actions are done.
    pub(crate) mask: u64,
}

impl Crash {
    pub(crate) const NONE: Self = Self { stage: 3, mask: u64::MAX };
}

impl World {
    pub(crate) fn new(spec: &JobSpec, exits: BTreeMap<String, Vec<i32>>) -> Self {
        let catalog = Catalog::default();
        let kind = catalog.kind(spec.kind).unwrap();
        let manifest = spec.manifest();
        let decoded = decode(&catalog, kind, &manifest).unwrap_or_else(|bad| panic!("{}", bad.error));
        assert_eq!(decoded.errors, vec![]);
        let addressing = match spec.ports {
            Ports::OneMachine => Addressing::HostPorts,
            Ports::Fixed | Ports::HostNetwork => Addressing::Service,
        };
        let mut job = decoded.job;
        job.resource_version = "1".into();
        let state = State {
            job: Some(Arc::new(job)),
            broken: false,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            extras: BTreeMap::new(),
        };
        Self {
            history: VecDeque::from([Arc::new(state.clone())]),
            state,
            now: Timestamp::from_second(1_000_000).unwrap(),
            starts: Vec::new(),
            options: Options {
                addressing,
                gang_on_pods: spec.gang,
                track_pods: spec.tracks,
                ..Options::default()
            },
            manifest,
            framework: decoded.framework.facts().name,
            exits,
            runs: BTreeMap::new(),
            successes: Vec::new(),
            owing: BTreeMap::new(),
            ended_before: false,
            forgot: false,
            next_uid: 0,
            version: 1,
            ports: PortSpace { first: 20_000, last: 20_999, taken: Vec::new() },
            refuses: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn framework(&self) -> &'static dyn Framework {
        Catalog::default().framework(self.framework).unwrap()
    }

    pub(crate) fn job(&self) -> Option<&JobView> {
        self.state.job.as_deref()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.job().is_none_or(|job| is_finished(&job.status))
    }

    fn changed(&mut self) {
        self.history.push_back(Arc::new(self.state.clone()));
        if self.history.len() > 8 {
            self.history.pop_front();
        }
    }

    /// A plan made from views that are `job_age` and `pod_age` changes old.
    pub(crate) fn plan(&self, job_age: usize, pod_age: usize) -> Option<(Plan, Arc<JobView>)> {
        let back = |age: usize| &self.history[self.history.len() - 1 - age.min(self.history.len() - 1)];
        let job = back(job_age).job.clone()?;
        let broken = back(job_age).broken;
        let pods: Vec<PodView> = back(pod_age).pods.values().map(|pod| pod.view.clone()).collect();
        let services: Vec<ServiceView> = back(pod_age).services.values().cloned().collect();
        let extras: Vec<ExtraView> = back(pod_age).extras.values().cloned().collect();
        Some((self.plan_of(&job, broken, &pods, &services, &extras), job))
    }

    pub(crate) fn plan_of(
        &self,
        job: &JobView,
        broken: bool,
        pods: &[PodView],
        services: &[ServiceView],
        extras: &[ExtraView],
    ) -> Plan {
        let seen = Seen {
            job,
            pods,
            services,
            extras,
            ports: Some(&self.ports),
            failures: &self.failures,
            tail: None,
            priorities: &Priorities::default(),
            options: &self.options,
            now: self.now,
        };
        if broken && !is_finished(&job.status) {
            let error = FieldError::required("spec.x", "must be there");
            return plan_broken(self.framework(), &seen, &[error]);
        }
        plan(self.framework(), &seen)
    }

    /// One reconcile with a fresh view, carried out completely.
    pub(crate) fn reconcile(&mut self) -> Option<Plan> {
        let (plan, job) = self.plan(0, 0)?;
        self.execute(&plan, &job, Crash::NONE);
        Some(plan)
    }

    /// Carries out a plan as the shell does; `crash` says how far it comes.
    pub(crate) fn execute(&mut self, plan: &Plan, seen: &JobView, crash: Crash) {
        let Some(job) = self.state.job.as_ref() else { return };
        let mut expected = seen.resource_version.clone();
        let stale = job.resource_version != expected;
        let writes = plan.record.is_some() || plan.status.is_some() || !plan.actions.is_empty();
        if crash.stage == 0 || !writes || stale {
            return;
        }
        if plan.record.is_some() && self.is_refused(&Resource::RECORD) {
            return;
        }
        if let Some(record) = &plan.record {
            expected = self.write_job(|job| {
                job.record = record.clone();
                job.has_record = true;
            });
        }
        if crash.stage == 1 {
            return;
        }
        if plan.status.is_some() && self.is_refused(&Resource::STATUS) {
            return;
        }
        if let Some(status) = &plan.status {
            self.write_job(|job| job.status = status.clone());
        }
        let _ = expected;
        if crash.stage == 2 {
            return;
        }
        for (i, action) in plan.actions.iter().enumerate() {
            if crash.mask >> (i % 64) & 1 == 1 {
                self.act(action);
            }
        }
    }

    fn write_job(&mut self, change: impl FnOnce(&mut JobView)) -> String {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(job) = self.state.job.as_mut().map(Arc::make_mut) {
            change(job);
            job.resource_version = version.clone();
        }
        self.changed();
        version
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Create(child) if child.what == &Resource::POD => self.create_pod(child),
            Action::Create(child) if child.what != &Resource::SERVICE => self.create_extra(child),
            Action::Create(child) => {
                let uid = self.uid();
                let view = ServiceView { name: child.name.as_str().into(), uid, deleting: false };
                self.state.services.entry(child.name.clone()).or_insert(view);
            }
            Action::Delete { what, name, uid, force, .. } if *what == &Resource::POD => {
                let Some(pod) = self.state.pods.get_mut(name).filter(|pod| *pod.view.uid == **uid) else {
                    return;
                };
                pod.view.deleting.get_or_insert(self.now);
                if *force {
                    self.leave(name);
                }
            }
            Action::Delete { what, name, uid, .. } if *what != &Resource::SERVICE => {
                let key = (what.kind, name.clone());
                if self.state.extras.get(&key).is_some_and(|extra| *extra.uid == **uid) {
                    self.state.extras.remove(&key);
                }
            }
            Action::Delete { name, uid, .. } => {
                if self.state.services.get(name).is_some_and(|s| *s.uid == **uid) {
                    self.state.services.remove(name);
                }
            }
            Action::Release { name, uid } => self.release(name, uid),
            Action::Amend { what, name, uid, patch } if *what != &Resource::POD => {
                let extra = self.state.extras.get_mut(&(what.kind, name.clone()));
                if let Some(extra) = extra.filter(|extra| *extra.uid == **uid) {
                    let members = patch.as_object().unwrap().iter().filter(|(name, _)| *name != "metadata");
                    let content = Arc::make_mut(&mut extra.content).as_object_mut().unwrap();
                    content.extend(members.map(|(name, value)| (name.clone(), value.clone())));
                }
            }
            Action::Amend { name, uid, patch, .. } => {
                let pointer = format!("/metadata/annotations/{}", labels::GANG_SIZE.replace('/', "~1"));
                let gang = patch.pointer(&pointer).and_then(Value::as_str).and_then(|n| n.parse().ok());
                if let Some(pod) = self.state.pods.get_mut(name).filter(|pod| *pod.view.uid == **uid) {
                    pod.view.labelled |= patch.pointer("/metadata/labels").is_some();
                    pod.view.gang = gang.or(pod.view.gang);
                    let deadline = patch.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
                    pod.view.active_deadline = deadline.or(pod.view.active_deadline);
                }
            }
            Action::DeleteJob { .. } => {
                self.state = State {
                    job: None,
                    broken: false,
                    pods: BTreeMap::new(),
                    services: BTreeMap::new(),
                    extras: BTreeMap::new(),
                };
            }
        }
        self.changed();
    }

    fn uid(&mut self) -> Box<str> {
        self.next_uid += 1;
        format!("uid-{}", self.next_uid).into()
    }

    fn create_extra(&mut self, child: &Child) {
        let uid = self.uid();
        let (name, content) = (child.name.as_str().into(), Arc::new(child.body.clone()));
        let view = ExtraView { what: child.what, name, uid, deleting: false, labelled: true, content };
        self.state.extras.entry((child.what.kind, child.name.clone())).or_insert(view);
    }

    fn create_pod(&mut self, child: &Child) {
        if self.state.pods.contains_key(&child.name) {
            return;
        }
        let text = |pointer: &str| child.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let label = |key: &str| text(&format!("/metadata/labels/{}", key.replace('/', "~1"))).to_owned();
        let pointer = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let number = |key: &str| text(&pointer(key)).parse().unwrap_or(0);
        let container = ContainerView {
            name: self.framework().facts().container.into(),
            state: ContainerState::Waiting { reason: None },
            ..ContainerView::default()
        };
        let view = PodView {
            name: child.name.as_str().into(),
            uid: self.uid(),
            role: label(labels::REPLICA_TYPE).into(),
            index: label(labels::REPLICA_INDEX).parse().ok(),
            labelled: true,
            attempt: number(labels::ATTEMPT),
            incarnation: number(labels::INCARNATION),
            used: number(labels::USED),
            ports: PortBlock::parse(text(&pointer(labels::PORTS))),
            gang: Some(number(labels::GANG_SIZE)).filter(|n| *n > 0),
            tracked: self.options.track_pods,
            phase: Phase::Pending,
            created: Some(self.now),
            containers: Box::new([container]),
            ..PodView::default()
        };
        let job = self.state.job.as_deref();
        let late = job.is_some_and(|job| {
            let role = job.role_by_label(&view.role).map(|role| role.name.as_str()).unwrap_or_default();
            job.record.attempt == view.attempt && job.record.is_finished(role, view.index.unwrap_or_default())
        });
        let pod = TruePod { view, policy: text("/spec/restartPolicy").into(), late, done: false, skew: 0 };
        self.state.pods.insert(child.name.clone(), pod);
    }

    /// A pod is kept no longer: it goes, if that is all it waited for.
    fn release(&mut self, name: &str, uid: &str) {
        let Some(pod) = self.state.pods.get_mut(name).filter(|pod| *pod.view.uid == *uid) else { return };
        pod.view.tracked = false;
        if pod.done {
            self.state.pods.remove(name);
        }
    }

    /// The node is done with a pod that was asked to end: it goes, unless it is kept.
    fn leave(&mut self, name: &str) {
        let Some(pod) = self.state.pods.get_mut(name) else { return };
        if !pod.view.tracked {
            self.state.pods.remove(name);
            return;
        }
        pod.done = true;
        if !pod.view.phase.is_over() {
            let now = Some(self.now);
            pod.view.phase = Phase::Failed;
            pod.view.containers[0].state =
                ContainerState::Terminated { exit: 143, reason: None, started: now, finished: now };
        }
    }

    /// Moves one pod on by one step; says whether anything happened.
    pub(crate) fn tick(&mut self, name: &str) -> bool {
        let Some(pod) = self.state.pods.get(name).cloned() else { return false };
        let state = pod.view.containers[0].state.clone();
        if pod.view.deleting.is_some() {
            if pod.done {
                return false;
            }
            self.leave(name);
        } else if pod.view.active_deadline.is_some() && !pod.view.phase.is_over() {
            self.expire(name);
        } else {
            match (pod.view.phase, state) {
                (Phase::Pending, _) if self.gang_is_complete(&pod) => self.start(name, 0),
                (Phase::Running, ContainerState::Running) => {
                    let Some(code) = self.exit_of(name) else { return false };
                    self.end(name, code);
                }
                (Phase::Running, ContainerState::Terminated { .. }) => self.start(name, 1),
                _ => return false,
            }
        }
        self.changed();
        true
    }

    /// A gang starts when all of it is there; who comes later joins those already placed.
    fn gang_is_complete(&self, pod: &TruePod) -> bool {
        let gang = || self.state.pods.values().filter(|other| other.view.attempt == pod.view.attempt);
        let placed = gang().any(|other| other.view.phase != Phase::Pending);
        placed || u32::try_from(gang().count()).unwrap() >= pod.view.gang.unwrap_or(0)
    }

    fn exit_of(&self, name: &str) -> Option<i32> {
        let run = self.runs.get(name).copied().unwrap_or(0).saturating_sub(1);
        match self.exits.get(name) {
            Some(codes) => Some(codes.get(run).copied().unwrap_or(0)).filter(|code| *code != RUNS_ON),
            None if name.contains("-ps-") => None,
            None => Some(0),
        }
    }

    fn start(&mut self, name: &str, restarts: u32) {
        let pod = self.state.pods.get_mut(name).unwrap();
        pod.view.phase = Phase::Running;
        pod.view.taken_on = pod.view.taken_on.or(Some(shifted(self.now, pod.skew)));
        pod.view.containers[0].since = Some(shifted(self.now, pod.skew));
        pod.view.containers[0].state = ContainerState::Running;
        pod.view.containers[0].restarts += restarts;
        let attempt = pod.view.attempt;
        // Where pods are kept until their end is written down, what really happened is what counts.
        let success = (name.to_owned(), attempt);
        let known = pod.view.tracked && !self.forgot;
        let after_success = pod.late || (known && self.successes.contains(&success));
        *self.runs.entry(name.to_owned()).or_default() += 1;
        let costs = self.owing.remove(name).unwrap_or(false);
        let job = self.state.job.as_ref();
        let alive = self.state.pods.values().filter(|pod| !pod.view.phase.is_over());
        let beside_old = restarts == 0 && alive.into_iter().any(|pod| pod.view.attempt < attempt);
        let after_end = job.is_none_or(|job| is_finished(&job.status));
        self.starts.push(Start { slot: name.into(), attempt, costs, after_end, after_success, beside_old });
    }

    /// The program of a pod that runs ends with this code.
    pub(crate) fn exit(&mut self, name: &str, code: i32) {
        self.end(name, code);
        self.changed();
    }

    fn end(&mut self, name: &str, code: i32) {
        let pod = self.state.pods.get_mut(name).unwrap();
        let (reason, now) = (None, shifted(self.now, pod.skew));
        pod.view.containers[0].state =
            ContainerState::Terminated { exit: code, reason, started: Some(now), finished: Some(now) };
        pod.view.phase = match (pod.policy.as_str(), code) {
            ("Always", _) | ("OnFailure", 1..) => Phase::Running,
            (_, 0) => Phase::Succeeded,
            _ => Phase::Failed,
        };
        pod.view.seen_over = Some(self.now).filter(|_| pod.view.phase.is_over());
        if pod.view.phase == Phase::Succeeded {
            self.successes.push((name.to_owned(), pod.view.attempt));
        }
        let in_place = pod.view.phase == Phase::Running;
        self.owing.insert(name.to_owned(), in_place || code != 0);
    }

    /// The node ends a pod whose deadline has passed; it stays.
    fn expire(&mut self, name: &str) {
        if let Some(pod) = self.state.pods.get_mut(name) {
            pod.view.phase = Phase::Failed;
            pod.view.reason = Some("DeadlineExceeded".into());
        }
    }

    /// The node throws the pod out.
    pub(crate) fn evict(&mut self, name: &str) {
        let Some(pod) = self.state.pods.get_mut(name).filter(|pod| pod.view.phase == Phase::Running) else {
            return;
        };
        pod.view.phase = Phase::Failed;
        pod.view.reason = Some("Evicted".into());
        let (reason, now) = (None, Some(self.now));
        pod.view.containers[0].state =
            ContainerState::Terminated { exit: 1, reason, started: now, finished: now };
        self.owing.insert(name.to_owned(), false);
        self.changed();
    }

    /// A user deletes the pod, a moment after whatever happened last: in the same second nobody could tell which came first.
    pub(crate) fn delete(&mut self, name: &str) {
        self.pass(1);
        if let Some(pod) = self.state.pods.get_mut(name) {
            pod.view.deleting.get_or_insert(self.now);
            self.owing.insert(name.to_owned(), false);
            self.changed();
        }
    }

    /// Something else happens to a pod.
    pub(crate) fn alter(&mut self, name: &str, change: impl FnOnce(&mut PodView)) {
        if let Some(pod) = self.state.pods.get_mut(name) {
            change(&mut pod.view);
            self.changed();
        }
    }

    /// A pod that is being deleted goes on with that; others stay as they are.
    pub(crate) fn tick_if_deleting(&mut self, name: &str) {
        if self.state.pods.get(name).is_some_and(|pod| pod.view.deleting.is_some()) {
            self.tick(name);
        }
    }

    /// A user changes the job.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut JobView)) {
        self.write_job(change);
    }

    /// Somebody removes the pod's labels.
    pub(crate) fn strip_labels(&mut self, name: &str) {
        if let Some(pod) = self.state.pods.get_mut(name) {
            pod.view.labelled = false;
            self.changed();
        }
    }

    pub(crate) fn suspend(&mut self, on: bool) {
        if self.job().is_some_and(|job| job.policy.suspend != on) {
            self.write_job(|job| job.policy.suspend = on);
            self.failures.clear();
            // What follows is the user's wish, not the answer to an end.
            self.owing.clear();
        }
    }

    pub(crate) fn scale(&mut self, workers: u32) {
        // A refusal concerns one spec: the operator tries again when the user has changed it.
        self.failures.clear();
        self.write_job(|job| {
            for role in job.roles.iter_mut().filter(|role| role.name == "Worker") {
                role.replicas = workers;
            }
        });
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(crate) fn pod_names(&self) -> Vec<String> {
        self.state.pods.keys().cloned().collect()
    }

    /// Runs fairly until nothing more happens; says whether that came to pass.
    pub(crate) fn settle(&mut self) -> bool {
        for _ in 0..400 {
            let mut moved = false;
            for _ in 0..4 {
                let Some(plan) = self.reconcile() else { return true };
                let quiet = plan.record.is_none() && plan.status.is_none() && plan.actions.is_empty();
                if quiet {
                    break;
                }
                moved = true;
            }
            for name in self.pod_names() {
                moved |= self.tick(&name);
                self.reconcile();
            }
            let quiet =
                |plan: &Plan| plan.record.is_none() && plan.status.is_none() && plan.actions.is_empty();
            let Some((plan, _)) = self.plan(0, 0) else { return true };
            let wake = plan.wake;
            // What a job leaves running after its end is not waited for.
            let ending = self.state.pods.values().any(|pod| pod.view.deleting.is_some());
            moved &= ending || !(self.is_over() && quiet(&plan));
            match (moved, wake) {
                (false, None) => return true,
                (false, Some(at)) => self.now = self.now.max(at),
                (true, _) => self.pass(1),
            }
        }
        false
    }

    /// What must be equal however the world got there.
    pub(crate) fn outcome(&self) -> String {
        let Some(job) = self.job() else { return "deleted".into() };
        let conditions: Vec<String> =
            job.status.conditions.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        let pods: Vec<String> = self
            .state
            .pods
            .values()
            .map(|p| format!("{}:{:?}:{}:{}", p.view.name, p.view.phase, p.view.attempt, p.view.incarnation))
            .collect();
        format!("{conditions:?} {:?} {pods:?} {:?}", job.record, job.status.replica_statuses)
    }

    /// Everything that must hold in every state of the world.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(job) = self.job() else { return notes };
        let on = |type_: &str| is_true(&job.status, type_);
        let states = [types::RUNNING, types::RESTARTING, types::SUCCEEDED, types::FAILED].map(on);
        if states.iter().filter(|on| **on).count() > 1 {
            notes.push(format!("more than one state is true: {:?}", job.status.conditions));
        }
        if is_finished(&job.status) != job.status.completion_time.is_some() {
            notes.push("completionTime and the end do not go together".into());
        }
        let names: Vec<&str> = job.status.conditions.iter().map(|c| c.type_.as_str()).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        if unique.len() != names.len() {
            notes.push(format!("a condition appears twice: {names:?}"));
        }
        // A job whose spec was never valid has failed, and nothing else is said of it.
        if !names.is_empty() && names[0] != types::CREATED && names != [types::FAILED] {
            notes.push(format!("Created is not first: {names:?}"));
        }
        // What a job waits for has its place whenever it changes.
        let states = job.status.conditions.iter().filter(|c| c.type_ != types::WAITING);
        let times: Vec<_> = states.map(|c| c.last_update_time.clone().unwrap().0).collect();
        if !times.is_sorted() {
            notes.push(format!("times are not in order: {times:?}"));
        }
        notes
    }

    /// Replicas that have succeeded and of which neither the record nor the end of the job tells.
    pub(crate) fn forgotten(&self) -> Vec<String> {
        let Some(job) = self.job().filter(|job| !is_finished(&job.status) && !job.policy.suspend) else {
            return Vec::new();
        };
        let container = self.framework().facts().container;
        let again = |pod: &PodView| {
            let role = job.role_by_label(&pod.role);
            job.restarts_as_one() && role.is_some_and(|role| role.restart == RestartPolicy::Always)
        };
        let pods = self.state.pods.values().map(|pod| &pod.view);
        let done = pods.filter(|pod| pod.has_succeeded(container) && !again(pod));
        let current = done.filter(|pod| pod.attempt == job.record.attempt);
        let role =
            |pod: &PodView| job.role_by_label(&pod.role).map(|role| role.name.clone()).unwrap_or_default();
        current
            .filter(|pod| {
                let (role, index) = (role(pod), pod.index.unwrap_or_default());
                pod.incarnation == job.record.incarnation(&role, index)
                    && !job.record.is_finished(&role, index)
            })
            .filter(|pod| job.slots().any(|slot| slot.child_name(job) == *pod.name))
            .map(|pod| pod.name.to_string())
            .collect()
    }

    pub(crate) fn cleans_all(&self) -> bool {
        self.job().is_some_and(|job| job.policy.clean == CleanPodPolicy::All)
    }
}
