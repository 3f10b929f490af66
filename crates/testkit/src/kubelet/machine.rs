//! One pod on a node, without IO: what is due, and what it changes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::container::{Container, Did, State, after, stamp};
use super::script::{End, OnDelete, PodScript, Policy};

/// What the kubelet has to do for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Bind it to a node.
    Bind,
    /// Write its status.
    Status(Value),
    /// A container was started: note it.
    Started { container: String, restarts: u32 },
    /// A container ended: note it. `own`: by itself, and not because somebody wanted it to.
    Ended { container: String, code: i32, own: bool },
    /// Its node refused it: note it.
    Refused,
    /// Ask the API to delete it, as the control plane does with pods on a lost node.
    Evict,
    /// Take it away: it has ended after a deletion.
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unbound,
    Starting,
    Init(usize),
    Running,
    /// All containers ended for good.
    Over,
    /// Its node does not answer: nothing happens any more.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    script: PodScript,
    policy: Policy,
    stage: Stage,
    stage_due: Option<Timestamp>,
    stopping: Option<(Timestamp, i32)>,
    inits: Vec<Container>,
    containers: Vec<Container>,
    since: Timestamp,
    started: Option<Timestamp>,
    /// When it has been active for as long as its spec allows.
    deadline: Option<Timestamp>,
    /// The `DisruptionTarget` condition that the API gave it.
    target: Option<Value>,
    /// `status.reason` and the `DisruptionTarget` condition's reason.
    why: Option<(&'static str, Option<&'static str>)>,
}

impl Machine {
    pub(crate) fn new(pod: &Value, script: PodScript, now: Timestamp) -> Self {
        let names = |pointer: &str| -> Vec<String> {
            let list = pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(|c| c.get("name").and_then(Value::as_str)).map(str::to_owned).collect()
        };
        let others = script.others.clone().unwrap_or_else(|| script.end.clone());
        let end = |at: usize| if at == 0 { script.end.clone() } else { others.clone() };
        let containers = names("/spec/containers");
        Self {
            policy: Policy::of(pod),
            stage: Stage::Unbound,
            stage_due: after(now, script.unscheduled),
            stopping: None,
            inits: names("/spec/initContainers").iter().map(|n| Container::new(n, End::Never)).collect(),
            containers: containers.iter().enumerate().map(|(i, n)| Container::new(n, end(i))).collect(),
            since: now,
            started: None,
            deadline: None,
            target: None,
            why: None,
            script,
        }
    }

    /// When it wants to be asked next.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        if self.stage == Stage::Lost {
            return None;
        }
        if let Some((due, _)) = self.stopping {
            return Some(due);
        }
        let deadline = self.deadline.filter(|_| self.stage != Stage::Over);
        self.containers.iter().filter_map(|c| c.due).chain(self.stage_due).chain(deadline).min()
    }

    /// Its spec allows it so many seconds from its start.
    pub(crate) fn limit(&mut self, seconds: i64) {
        let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.deadline = self.started.and_then(|started| after(started, allowed));
    }

    /// The API has said why it is about to end it. A kubelet leaves that as it is.
    pub(crate) fn is_target(&mut self, condition: &Value) {
        self.target = Some(condition.clone());
    }

    /// The API wants it to end within `grace` seconds.
    pub(crate) fn stop(&mut self, grace: i64, now: Timestamp) {
        if self.stopping.is_some() || self.stage == Stage::Lost {
            return;
        }
        let OnDelete::Ends(exit) = self.script.on_delete else {
            self.stage = Stage::Lost;
            return;
        };
        let patience = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let (wait, code) = if exit.after > patience { (patience, 137) } else { (exit.after, exit.code) };
        self.stopping = Some((after(now, wait).unwrap_or(now), code));
    }

    /// Does one thing that is due; call again until nothing is.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        if let Some((due, code)) = self.stopping {
            return if due <= now { self.end(code, now) } else { Vec::new() };
        }
        if self.stage != Stage::Over && self.deadline.is_some_and(|due| due <= now) {
            return self.expire(now);
        }
        if self.stage_due.is_some_and(|due| due <= now) {
            self.stage_due = None;
            return self.next_stage(now);
        }
        if self.stage != Stage::Running {
            return Vec::new();
        }
        let mut effects = Vec::new();
        for container in &mut self.containers {
            match container.tick(self.policy, now) {
                Some(Did::Started) => effects.push(started(container)),
                Some(Did::Ended(code)) => {
                    effects.push(ended(container, code, true));
                }
                Some(Did::Paused) => effects.push(Effect::Status(Value::Null)),
                None => {}
            }
        }
        if effects.is_empty() {
            return effects;
        }
        effects.retain(|effect| !matches!(effect, Effect::Status(_)));
        if self.is_over() {
            self.stage = Stage::Over;
            self.stage_due = None;
        }
        effects.push(Effect::Status(self.status()));
        effects
    }

    fn next_stage(&mut self, now: Timestamp) -> Vec<Effect> {
        match self.stage {
            Stage::Unbound if matches!(self.script.end, End::Refused(_)) => self.refuse(),
            Stage::Unbound => {
                self.stage = Stage::Starting;
                self.stage_due = after(now, self.script.starting);
                self.started = Some(now);
                vec![Effect::Bind, Effect::Status(self.status())]
            }
            Stage::Starting if self.inits.is_empty() => self.run(now),
            Stage::Starting => self.begin_init(0, now),
            Stage::Init(at) => {
                let mut effects = Vec::new();
                if let Some(init) = self.inits.get_mut(at) {
                    init.finish(0, now);
                    effects.push(ended(init, 0, true));
                }
                let next = at + 1;
                let more = next < self.inits.len();
                effects.extend(if more { self.begin_init(next, now) } else { self.run(now) });
                effects
            }
            Stage::Running => self.disrupt(now),
            Stage::Over | Stage::Lost => Vec::new(),
        }
    }

    fn begin_init(&mut self, at: usize, now: Timestamp) -> Vec<Effect> {
        self.stage = Stage::Init(at);
        self.stage_due = after(now, self.script.init);
        let mut effects = Vec::new();
        if let Some(init) = self.inits.get_mut(at) {
            init.start(now);
            effects.push(started(init));
        }
        effects.push(Effect::Status(self.status()));
        effects
    }

    fn run(&mut self, now: Timestamp) -> Vec<Effect> {
        self.stage = Stage::Running;
        self.stage_due = match self.script.end {
            End::Evicted(wait) | End::NodeLost(wait) => after(now, wait),
            End::Never | End::Refused(_) | End::Exits(_) | End::OutOfMemory(_) => None,
        };
        let mut effects = Vec::new();
        for container in &mut self.containers {
            container.start(now);
            effects.push(started(container));
        }
        effects.push(Effect::Status(self.status()));
        effects
    }

    /// Its node will not have it: it is over before anything of it has started.
    fn refuse(&mut self) -> Vec<Effect> {
        if let End::Refused(reason) = self.script.end {
            self.why = Some((reason, None));
        }
        self.stage = Stage::Over;
        vec![Effect::Bind, Effect::Refused, Effect::Status(self.status())]
    }

    /// It was active for as long as it may be: it ends for good and stays.
    fn expire(&mut self, now: Timestamp) -> Vec<Effect> {
        self.why = Some(("DeadlineExceeded", None));
        let mut effects = self.end_all(137, now);
        self.stage = Stage::Over;
        self.stage_due = None;
        effects.push(Effect::Status(self.status()));
        effects
    }

    /// The node's own reasons to end a pod.
    fn disrupt(&mut self, now: Timestamp) -> Vec<Effect> {
        if matches!(self.script.end, End::NodeLost(_)) {
            self.why = Some(("NodeLost", Some("DeletionByTaintManager")));
            let status = Effect::Status(self.status());
            self.stage = Stage::Lost;
            return vec![status, Effect::Evict];
        }
        self.why = Some(("Evicted", Some("TerminationByKubelet")));
        let mut effects = self.end_all(137, now);
        self.stage = Stage::Over;
        effects.push(Effect::Status(self.status()));
        effects
    }

    fn end_all(&mut self, code: i32, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        for container in self.inits.iter_mut().chain(&mut self.containers) {
            container.due = None;
            if matches!(container.state, State::Running(_)) {
                container.finish(code, now);
                effects.push(ended(container, code, false));
            }
        }
        effects
    }

    /// After a deletion: the last status, then the object goes.
    fn end(&mut self, code: i32, now: Timestamp) -> Vec<Effect> {
        let mut effects = self.end_all(code, now);
        self.stopping = None;
        self.stage_due = None;
        if self.stage != Stage::Over {
            self.stage = Stage::Over;
            effects.push(Effect::Status(self.status()));
            if !self.script.lingers.is_zero() {
                self.stopping = after(now, self.script.lingers).map(|due| (due, code));
                return effects;
            }
        }
        effects.push(Effect::Remove);
        effects
    }

    fn is_over(&self) -> bool {
        self.containers.iter().all(|c| matches!(c.state, State::Ended(_)) && c.due.is_none())
    }

    fn phase(&self) -> &'static str {
        let ended = |c: &Container| match c.state {
            State::Ended(ended) => Some(ended.code),
            State::Waiting(_) | State::Running(_) => None,
        };
        match self.stage {
            Stage::Unbound | Stage::Starting | Stage::Init(_) => "Pending",
            Stage::Running | Stage::Lost => "Running",
            Stage::Over if self.why.is_some() => "Failed",
            Stage::Over if self.containers.iter().all(|c| ended(c) == Some(0)) => "Succeeded",
            Stage::Over => "Failed",
        }
    }

    /// The whole status, as a merge patch.
    pub(crate) fn status(&self) -> Value {
        let skew = self.script.skew;
        let statuses = |list: &[Container]| list.iter().map(|c| c.status(skew)).collect::<Vec<_>>();
        let ready = self.stage == Stage::Running
            && self.containers.iter().all(|c| matches!(c.state, State::Running(_)));
        let mut conditions = vec![
            self.condition("PodScheduled", true, None),
            self.condition("Initialized", !matches!(self.stage, Stage::Starting | Stage::Init(_)), None),
            self.condition("Ready", ready && self.why.is_none(), None),
            self.condition("ContainersReady", ready, None),
        ];
        if let Some((_, Some(disruption))) = self.why {
            conditions.push(self.condition("DisruptionTarget", true, Some(disruption)));
        } else {
            conditions.extend(self.target.clone());
        }
        let mut status = json!({
            "phase": self.phase(),
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
        });
        let fields = status.as_object_mut().expect("written as an object");
        // A node that refuses a pod says nothing of its containers.
        if !matches!(self.script.end, End::Refused(_)) {
            fields.insert("containerStatuses".into(), statuses(&self.containers).into());
        }
        if !self.inits.is_empty() {
            fields.insert("initContainerStatuses".into(), statuses(&self.inits).into());
        }
        if let Some(started) = self.started {
            fields.insert("startTime".into(), stamp(started, skew).into());
        }
        if let Some((reason, _)) = self.why {
            fields.insert("reason".into(), reason.into());
        }
        json!({ "status": status })
    }

    fn condition(&self, type_: &str, is: bool, reason: Option<&str>) -> Value {
        let mut condition = json!({
            "type": type_,
            "status": if is { "True" } else { "False" },
            "lastTransitionTime": stamp(self.since, self.script.skew),
        });
        if let (Some(reason), Some(fields)) = (reason, condition.as_object_mut()) {
            fields.insert("reason".into(), reason.into());
        }
        condition
    }

    /// True while a process of it may run that the API can no longer reach.
    pub(crate) fn is_lost(&self) -> bool {
        self.stage == Stage::Lost
    }

    /// Containers that run now.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        let all = self.inits.iter().chain(&self.containers);
        all.filter(|c| matches!(c.state, State::Running(_))).map(|c| c.name.as_str())
    }

    /// The longest a caller should wait when nothing is due.
    pub(crate) const IDLE: SignedDuration = SignedDuration::from_hours(1);
}

fn ended(container: &Container, code: i32, own: bool) -> Effect {
    Effect::Ended { container: container.name.clone(), code, own }
}

fn started(container: &Container) -> Effect {
    Effect::Started { container: container.name.clone(), restarts: container.restarts }
}
