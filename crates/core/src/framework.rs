//! How the replicas of a job find each other, and whose end decides: the reason frameworks differ at all.

use trainyard_api::RestartPolicy;

use crate::action::{Child, Resource};
use crate::extra::Around;
use crate::field_error::FieldError;
use crate::job::{JobView, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;
use crate::steps::tally::Tally;

/// What is fixed about a framework.
#[derive(Debug)]
pub struct Facts {
    /// Its name in the table: `pytorch`.
    pub name: &'static str,
    /// Replica types in start order, in their canonical spelling.
    pub roles: &'static [&'static str],
    /// Roles of which the first present one decides about the job.
    pub leaders: &'static [&'static str],
    /// The role that decides when there is no leader.
    pub followers: &'static str,
    /// The container that trains; its exit code is the replica's.
    pub container: &'static str,
    /// Whether any container will do if none has that name.
    pub any_container: bool,
    /// The name of the port that peers reach a replica at; empty if they do not.
    pub port_name: &'static str,
    /// The port's number if the user gives none.
    pub port: u16,
    /// What happens to a failed replica if the user says nothing.
    pub restart: RestartPolicy,
    /// Whose address the others are told.
    pub rendezvous: Rendezvous,
    /// Whether each replica gets a service, by whose name the others find it.
    pub services: bool,
    /// Whether replicas that served the deciding one are counted once that has ended.
    pub servants_count: bool,
    /// Roles of which there is no replica unless the user says how many.
    pub absent: &'static [&'static str],
    /// Roles of one replica, whose pod is named without a number.
    pub single: &'static [&'static str],
    /// Whether replicas talk to the API server.
    pub uses_api: bool,
    /// What the framework's [extras](Framework::extras) are.
    pub extras: &'static [&'static Resource],
}

impl Facts {
    /// What most frameworks have in common, for `..Facts::USUAL`.
    pub const USUAL: Self = Self {
        name: "",
        roles: &[],
        leaders: &[],
        followers: "",
        container: "",
        any_container: false,
        port_name: "",
        port: 0,
        restart: RestartPolicy::Never,
        rendezvous: Rendezvous::Leader,
        services: true,
        servants_count: true,
        absent: &[],
        single: &[],
        uses_api: false,
        extras: &[],
    };
}

/// Whose address the other replicas are told. Such a replica cannot be replaced alone where addresses are ports:
/// a new attempt gets new ports, and everyone has to learn of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// Only the deciding replica's.
    Leader,
    /// Everybody's.
    Everyone,
}

/// What a framework says about a job's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say yet.
    Waiting,
    /// The deciding replica runs.
    Running,
    /// The job has done what it was for.
    Succeeded,
}

/// Whether a replica may be created now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Open,
    /// Not yet, because of this.
    Closed(String),
}

/// How many replicas an elastic job may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

impl Elastic {
    /// The bounds of a policy: one that is given stands for both, and without any it is the workers there are.
    pub fn of(min: Option<i32>, max: Option<i32>, workers: Option<u32>) -> Option<Self> {
        let workers = workers.and_then(|n| i32::try_from(n).ok());
        let bound = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
        Some(Self { min: bound(min.or(max).or(workers))?, max: bound(max.or(min).or(workers))? })
    }
}

/// One framework: one file. `facts` and `wire` are required, the rest has defaults made from the facts.
pub trait Framework: Sync {
    /// What is fixed about it.
    fn facts(&self) -> &'static Facts;

    /// Tells one replica who it is and where the others are: env, args, ports.
    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft);

    /// What the state of its replicas means for the job.
    fn verdict(&self, job: &JobView, tally: &Tally) -> Verdict {
        by_decider(self.facts(), job, tally)
    }

    /// True when failed replicas of this role do not concern the job.
    fn tolerates(&self, _job: &JobView, _role: &str) -> bool {
        false
    }

    /// Rules of its own for the spec, besides those for every kind.
    fn validate(&self, _job: &JobView) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is right and should still be written otherwise.
    fn warnings(&self, _job: &JobView) -> Vec<String> {
        Vec::new()
    }

    /// Defaults of its own, besides those for every kind.
    fn default(&self, _job: &mut JobView) {}

    /// Whether this replica may be created, given the others.
    fn may_start(&self, _job: &JobView, _tally: &Tally, _slot: Slot<'_>) -> Gate {
        Gate::Open
    }

    /// Objects beside pods and services that the job needs now.
    fn extras(&self, _around: Around<'_>) -> Vec<Child> {
        Vec::new()
    }

    /// Bounds of an elastic job.
    fn elastic(&self, _job: &JobView) -> Option<Elastic> {
        None
    }

    /// True for the replicas that carry the master label.
    fn is_master(&self, job: &JobView, slot: Slot<'_>) -> bool {
        is_leader(self.facts(), job, slot)
    }

    /// What a replica spec without the training container is told.
    fn needs_container(&self) -> String {
        format!("must have at least one container with name {}", self.facts().container)
    }

    /// True when who leads cannot listen on its port again soon after it ended. Where addresses are ports, such a
    /// replica is not restarted in place: the whole job starts anew on other ports.
    fn needs_new_port(&self) -> bool {
        false
    }
}

/// The role whose end decides about the job.
pub fn decider<'a>(facts: &Facts, job: &'a JobView) -> Option<&'a str> {
    let leader = facts.leaders.iter().find_map(|name| job.role(name));
    leader.or_else(|| job.role(facts.followers)).map(|role| role.name.as_str())
}

/// True when the job has a replica of a leading role.
pub fn has_leader(facts: &Facts, job: &JobView) -> bool {
    facts.leaders.iter().any(|name| job.role(name).is_some())
}

/// True for the replica that the others look to: all of the leading role, else follower 0.
pub fn is_leader(facts: &Facts, job: &JobView, slot: Slot<'_>) -> bool {
    if has_leader(facts, job) {
        facts.leaders.contains(&slot.role.name.as_str())
    } else {
        slot.role.name == facts.followers && slot.index == 0
    }
}

/// The usual verdict: the deciding role runs when one of it runs, and has succeeded when all of it have.
pub fn by_decider(facts: &Facts, job: &JobView, tally: &Tally) -> Verdict {
    let Some(role) = decider(facts, job) else {
        return Verdict::Waiting;
    };
    let count = tally.of(role);
    if count.wanted > 0 && count.succeeded == count.wanted {
        Verdict::Succeeded
    } else if count.active > 0 {
        Verdict::Running
    } else {
        Verdict::Waiting
    }
}
