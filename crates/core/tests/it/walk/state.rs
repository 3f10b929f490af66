//! A state of a small job: what is stored of it, and its pods.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trainyard_api::{Condition, JobStatus};
use trainyard_core::conditions::{is_finished, is_true, stamp, types};
use trainyard_core::framework::decider;
use trainyard_core::invalid::plan_broken;
use trainyard_core::*;

use super::REPLICAS;
use super::pod::{Age, Asked, EARLY, LATE, Life, Pod};

/// What does not change on a walk.
pub(super) struct Job {
    /// In attempt 1, with each replica replaced once: as good as any, since only differences matter.
    view: JobView,
    framework: &'static dyn Framework,
    extras: Vec<ExtraView>,
    options: Options,
    /// Lists of conditions, by number.
    lists: Vec<Vec<Condition>>,
    detail: Detail,
}

/// How much of the world a walk looks at: the more replicas there are, the more states each thing makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// Restarts that the job may use; the kubelet's are counted up to one more.
    pub(super) limit: Option<u8>,
    /// Nodes that refuse pods or do not answer, pods that Kubernetes itself ends, and a deadline.
    pub(super) trouble: bool,
    /// The user suspends and resumes the job.
    pub(super) suspends: bool,
    /// The user makes the spec invalid, and valid again.
    pub(super) edits: bool,
}

impl Detail {
    /// Restarts beyond this many make no difference.
    pub(super) fn most_restarts(self) -> u8 {
        self.limit.map_or(0, |limit| limit + 1)
    }
}

/// What is stored of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Replica {
    finished: bool,
    pod: Option<Pod>,
}

/// One state. The engine's whole input follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    suspend: bool,
    /// The spec is invalid.
    broken: bool,
    /// Number of the list of conditions.
    conditions: u16,
    started: bool,
    restarts: u8,
    /// As many as the job has; the rest stay as they are.
    replicas: [Replica; REPLICAS as usize],
}

/// What the operator made of a state, and what is wrong with that.
pub(super) struct Planned {
    pub(super) state: State,
    /// It wants to look again later, even if nothing happens.
    pub(super) waits: bool,
    pub(super) wrong: Vec<String>,
}

impl Job {
    /// A job of that shape, if it is one that may run.
    pub(super) fn new(
        kind: &'static Kind,
        shape: &[(&str, u32)],
        restart: &str,
        detail: Detail,
    ) -> Option<Self> {
        let catalog = Catalog::default();
        let container = catalog.framework(kind.framework)?.facts().container;
        let template = json!({ "spec": { "containers": [{ "name": container, "image": "i" }] } });
        let specs: Map<String, Value> = shape
            .iter()
            .map(|(role, n)| {
                ((*role).into(), json!({ "replicas": n, "restartPolicy": restart, "template": template }))
            })
            .collect();
        let policy = json!({
            "activeDeadlineSeconds": detail.trouble.then_some(50),
            "backoffLimit": detail.limit,
        });
        let manifest = json!({
            "metadata": { "name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1" },
            "spec": { "runPolicy": policy, kind.replica_specs: specs },
        });
        let Decoded { mut job, framework, errors } =
            decode(&catalog, kind, &manifest).unwrap_or_else(|bad| panic!("{}", bad.error));
        if !errors.is_empty() || decider(framework.facts(), &job).is_none() {
            return None;
        }
        job.has_record = true;
        job.record.attempt = 1;
        for slot in job.slots().map(|slot| (slot.role.name.clone(), slot.index)).collect::<Vec<_>>() {
            job.record.raise(&slot.0, slot.1, 1);
        }
        let options = Options::default();
        let around = Around { job: &job, running: &[], options: &options };
        let extras = framework.extras(around).iter().map(ExtraView::granted).collect();
        Some(Self { view: job, framework, extras, options, lists: vec![Vec::new()], detail })
    }

    /// How the conditions of a state read: `Created Running=False Succeeded`. Whether the spec can be read is no place
    /// in a job's life, and left out.
    pub(super) fn shape(&self, state: &State) -> String {
        let name = |c: &Condition| {
            if c.status == "True" { c.type_.clone() } else { format!("{}=False", c.type_) }
        };
        let life = self.list(state).iter().filter(|c| c.type_ != types::INVALID_SPEC);
        life.map(name).collect::<Vec<_>>().join(" ")
    }

    fn list(&self, state: &State) -> &[Condition] {
        &self.lists[usize::from(state.conditions)]
    }

    fn is_over(&self, state: &State) -> bool {
        let end = |c: &Condition| [types::SUCCEEDED, types::FAILED].contains(&&*c.type_);
        self.list(state).iter().any(end)
    }

    /// The number of a list of conditions. Messages and times are no part of it: nothing is decided by them.
    fn number(&mut self, list: &[Condition]) -> u16 {
        let same = |a: &Condition, b: &Condition| {
            (&a.type_, &a.status, &a.reason) == (&b.type_, &b.status, &b.reason)
        };
        let equal = |known: &Vec<Condition>| {
            known.len() == list.len() && known.iter().zip(list).all(|(a, b)| same(a, b))
        };
        let number = self.lists.iter().position(equal).unwrap_or_else(|| {
            self.lists.push(list.to_vec());
            self.lists.len() - 1
        });
        u16::try_from(number).unwrap()
    }

    /// The job as the engine is shown it.
    fn seen(&self, state: &State) -> JobView {
        let early = stamp(Timestamp::from_second(EARLY).unwrap());
        let mut job = self.view.clone();
        job.policy.suspend = state.suspend;
        job.status.conditions = self.list(state).to_vec();
        job.status.start_time = state.started.then(|| early.clone());
        job.status.completion_time = is_finished(&job.status).then_some(early);
        job.record.restarts = state.restarts.into();
        for (slot, _) in self.view.slots().zip(&state.replicas).filter(|(_, replica)| replica.finished) {
            job.record.finish(&slot.role.name, slot.index);
        }
        job
    }

    fn plan(&self, job: &JobView, pods: &[PodView], broken: bool, now: Timestamp) -> Plan {
        let seen = Seen {
            job,
            pods,
            services: &[],
            extras: &self.extras,
            ports: None,
            failures: &[],
            tail: None,
            priorities: &Priorities::default(),
            options: &self.options,
            now,
        };
        if broken {
            let errors = [FieldError::required("spec.x", "must be there")];
            return plan_broken(self.framework, &seen, &errors);
        }
        plan(self.framework, &seen)
    }
}

impl State {
    /// A job nobody has looked at.
    pub(super) fn start() -> Self {
        let broken = false;
        Self {
            suspend: false,
            broken,
            conditions: 0,
            started: false,
            restarts: 0,
            replicas: Default::default(),
        }
    }

    /// Everything that users, kubelets and Kubernetes may do next.
    pub(super) fn by_the_world(&self, job: &Job) -> Vec<Self> {
        let mut next = Vec::new();
        if job.detail.suspends {
            next.push(Self { suspend: !self.suspend, ..*self });
        }
        if job.detail.edits {
            next.push(Self { broken: !self.broken, ..*self });
        }
        for (i, slot) in job.view.slots().enumerate() {
            let Some(pod) = self.replicas[i].pod else { continue };
            for after in pod.next(slot.role.restart.of_pod(), job.detail) {
                let mut state = *self;
                state.replicas[i].pod = after;
                next.push(state);
            }
        }
        next.iter_mut().for_each(|state| state.settle(job));
        next
    }

    /// What the operator makes of it.
    pub(super) fn by_the_operator(&self, job: &mut Job, late: bool) -> Planned {
        let seen = job.seen(self);
        let container = job.framework.facts().container;
        let pods: Vec<PodView> = (job.view.slots().zip(&self.replicas))
            .filter_map(|(slot, replica)| Some(replica.pod?.view(&job.view, slot, container)))
            .collect();
        let now = Timestamp::from_second(if late { LATE } else { EARLY }).unwrap();
        let plan = job.plan(&seen, &pods, self.broken, now);
        let status = plan.status.as_ref().unwrap_or(&seen.status);
        let mut wrong = self.wrong(&seen, status, &plan);
        let mut state = *self;
        if let Some(record) = &plan.record {
            state.remember(job, record);
        }
        state.started = status.start_time.is_some();
        state.conditions = job.number(&status.conditions);
        wrong.extend(plan.actions.iter().filter_map(|action| state.carry_out(job, action)));
        state.settle(job);
        for text in &mut wrong {
            *text = format!("{text}, from [{}] {self:?}", job.shape(self));
        }
        Planned { state, waits: plan.wake.is_some(), wrong }
    }

    /// Takes over a record: numbers that were raised make pods of the past.
    fn remember(&mut self, job: &Job, record: &Record) {
        let anew = record.attempt > job.view.record.attempt;
        self.restarts = u8::try_from(record.restarts).unwrap();
        for (slot, replica) in job.view.slots().zip(&mut self.replicas) {
            let (role, index) = (&slot.role.name, slot.index);
            let replaced = record.incarnation(role, index) > job.view.record.incarnation(role, index);
            replica.finished = record.is_finished(role, index);
            if let Some(pod) = &mut replica.pod {
                match pod.age {
                    _ if anew => pod.age = Age::Past,
                    Age::Current if replaced => pod.age = Age::Replaced,
                    Age::Current | Age::Replaced | Age::Past => {}
                }
            }
        }
    }

    /// Carries out an action of a plan, as far as it is about pods; says what is wrong with it.
    fn carry_out(&mut self, job: &Job, action: &Action) -> Option<String> {
        let name = match action {
            Action::Create(child) if *child.what == Resource::POD => &child.name,
            Action::Delete { what, name, .. } if **what == Resource::POD => name,
            _ => return None,
        };
        let place = job.view.slots().position(|slot| slot.child_name(&job.view) == *name).unwrap();
        let replica = &mut self.replicas[place];
        match (action, &mut replica.pod) {
            (Action::Create(_), Some(_)) => return Some(format!("{name} is created twice")),
            (Action::Create(_), None) if replica.finished => {
                return Some(format!("{name} is created after it has succeeded"));
            }
            (Action::Create(_), None) => replica.pod = Some(Pod::NEW),
            (_, Some(pod)) => pod.ask(),
            (_, None) => return Some(format!("{name} is deleted and is not there")),
        }
        None
    }

    /// What must never be planned.
    fn wrong(&self, seen: &JobView, status: &JobStatus, plan: &Plan) -> Vec<String> {
        let mut wrong = Vec::new();
        let creates = |a: &Action| matches!(a, Action::Create(child) if *child.what == Resource::POD);
        if is_finished(&seen.status)
            && (plan.status.is_some() || plan.record.is_some() || plan.actions.iter().any(creates))
        {
            wrong.push(format!("an end is not the end: {plan:?}"));
        }
        let runs = |pod: Pod| matches!(pod.life, Life::Running | Life::Down) && pod.asked == Asked::Never;
        if is_true(status, types::RUNNING) && !self.replicas.iter().filter_map(|r| r.pod).any(runs) {
            wrong.push("Running without a pod that runs".into());
        }
        if is_true(status, types::INVALID_SPEC) && (!self.broken || is_finished(status)) {
            wrong.push("InvalidSpec where the spec is valid, or where the job has failed for it".into());
        }
        wrong
    }

    /// Leaves out what makes no difference, and puts the rest in an order: what differs only in that is one state.
    fn settle(&mut self, job: &Job) {
        self.restarts = self.restarts.min(job.detail.most_restarts());
        let over = job.is_over(self);
        if over {
            (self.restarts, self.suspend, self.broken, self.started) = (0, false, false, true);
        }
        for replica in &mut self.replicas {
            replica.finished &= !over;
            if let Some(pod) = &mut replica.pod {
                pod.settle();
            }
        }
        // The first replica of a role may be special; the others are alike.
        let mut first = 0;
        for role in &job.view.roles {
            let end = first + role.replicas as usize;
            self.replicas[(first + 1).min(end)..end].sort_unstable();
            first = end;
        }
    }
}
