//! A state of a small job: what is stored of it, its pods, and what the operator knows of them.

use trainyard_api::RestartPolicy;
use trainyard_core::conditions::types;
use trainyard_core::*;

use super::REPLICAS;
use super::job::{Job, USED};
use super::moves::{Move, Step};
use super::pod::{Again, Age, Asked, Life, Pod};

/// What is stored of one replica, and what is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Replica {
    /// The record says that it has succeeded.
    pub(super) finished: bool,
    pub(super) pod: Option<Pod>,
    /// Its program really has done its work in this attempt, without being asked to end.
    pub(super) worked: bool,
    /// What the operator's cache has of it, if that is behind.
    pub(super) cached: Option<Cached>,
    /// A request of the operator's that has not arrived yet.
    pub(super) flight: Option<Flight>,
}

/// What a cache that is behind has of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Cached {
    pub(super) pod: Option<Pod>,
    /// That pod is the one that is there.
    pub(super) same: bool,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Flight {
    /// Of a pod with this policy, which is told that so much of the budget is used.
    Create(Again, u8),
    Delete,
    Stop,
}

/// What became of the annotation that holds the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kept {
    /// It is as the operator wrote it.
    Own,
    /// A user replaced the object without it.
    Lost,
    /// The object is a copy: it has the record of the one that it was copied from.
    OfAnother,
}

/// Which part of the job the server refuses to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refuses {
    Nothing,
    Record,
    Status,
}

/// What really happened, whatever is written about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Ends that the user has to answer for, up to one more than the limit.
    pub(super) failures: u8,
    /// One that no restart may follow.
    pub(super) fatal: bool,
    /// Replacements that followed such ends, up to one more than the limit.
    pub(super) paid: u8,
}

/// One state. The engine's whole input follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) suspend: bool,
    /// The spec is invalid.
    pub(super) broken: bool,
    /// The job has one worker less.
    pub(super) scaled: bool,
    /// Nothing was ever restarted or replaced.
    pub(super) fresh: bool,
    pub(super) record: Kept,
    pub(super) refuses: Refuses,
    /// Number of the list of conditions.
    pub(super) conditions: u16,
    pub(super) started: bool,
    pub(super) restarts: u8,
    pub(super) truth: Truth,
    /// As many as the job has; the rest stay as they are.
    pub(super) replicas: [Replica; REPLICAS as usize],
}

impl State {
    /// A job nobody has looked at.
    pub(super) fn start(job: &Job) -> Self {
        Self {
            suspend: false,
            broken: false,
            scaled: false,
            fresh: job.detail.search,
            record: Kept::Own,
            refuses: Refuses::Nothing,
            conditions: 0,
            started: false,
            restarts: 0,
            truth: Truth::default(),
            replicas: Default::default(),
        }
    }

    /// Attempt of the job and incarnation of its replicas.
    pub(super) fn base(&self) -> (u32, u32) {
        if self.fresh { (0, 0) } else { USED }
    }

    pub(super) fn is_over(&self, job: &Job) -> bool {
        let end = |type_: &str| [types::SUCCEEDED, types::FAILED].contains(&type_);
        job.list(self.conditions).iter().any(|c| end(&c.type_))
    }

    /// How many replicas the spec asks for now.
    pub(super) fn wanted(&self, job: &Job) -> usize {
        usize::try_from(self.spec(job).total_replicas()).unwrap()
    }

    /// The spec as it is now.
    pub(super) fn spec<'a>(&self, job: &'a Job) -> &'a JobView {
        job.smaller.as_ref().filter(|_| self.scaled).unwrap_or(&job.view)
    }

    /// True while requests of the operator are on their way.
    pub(super) fn is_busy(&self) -> bool {
        self.replicas.iter().any(|replica| replica.flight.is_some())
    }

    /// Everything that users, kubelets and Kubernetes may do next.
    pub(super) fn by_the_world(&self, job: &Job) -> Vec<Step> {
        let mut next = Vec::new();
        let mut push = |what: Move, fault: bool, state: Self| next.push(Step { what, fault, state });
        if job.detail.suspends || job.detail.search {
            push(Move::Suspend, !self.suspend, Self { suspend: !self.suspend, ..*self });
        }
        if job.detail.edits || job.detail.search {
            push(Move::Break, !self.broken, Self { broken: !self.broken, ..*self });
        }
        if job.smaller.is_some() {
            push(Move::Scale, !self.scaled, Self { scaled: !self.scaled, ..*self });
        }
        for place in 0..job.view.slots().count() {
            let Some(pod) = self.replicas[place].pod else { continue };
            for chance in pod.next(job.detail) {
                let mut state = *self;
                state.happens(job, place, chance.pod);
                push(Move::Pod(place, chance.pod), chance.fault, state);
            }
        }
        if job.detail.search {
            self.misfortunes(job, &mut push);
        }
        next.iter_mut().for_each(|step| step.state.settle(job));
        next
    }

    /// What only a search looks at: caches that are behind, requests that are slow or lost, records that are.
    fn misfortunes(&self, job: &Job, push: &mut impl FnMut(Move, bool, Self)) {
        let places = 0..job.view.slots().count();
        if self.replicas.iter().all(|replica| replica.cached.is_none()) {
            let mut state = *self;
            for replica in &mut state.replicas[places.clone()] {
                replica.cached = Some(Cached { pod: replica.pod, same: true });
            }
            push(Move::Lag, true, state);
        }
        for place in places {
            let replica = &self.replicas[place];
            if replica.cached.is_some() {
                let mut state = *self;
                state.replicas[place].cached = None;
                push(Move::CatchUp(place), false, state);
            }
            if replica.flight.is_some() {
                let mut state = *self;
                state.arrive(job, place);
                push(Move::Arrive(place), false, state);
            }
        }
        if self.is_busy() {
            let mut state = *self;
            state.replicas.iter_mut().for_each(|replica| replica.flight = None);
            push(Move::Crash, false, state);
        }
        let refuse = |refuses: Refuses| Self { refuses, ..*self };
        if self.refuses == Refuses::Nothing {
            push(Move::Refuse, true, refuse(Refuses::Record));
            push(Move::Refuse, true, refuse(Refuses::Status));
        } else {
            push(Move::Refuse, false, refuse(Refuses::Nothing));
        }
        if self.record == Kept::Own && self.conditions > 0 {
            push(Move::LoseRecord, true, self.without_record());
            push(Move::Copy, true, self.copied());
        }
    }

    /// The object was replaced by one without annotations. What pods know of the budget stays known.
    fn without_record(&self) -> Self {
        let mut state = Self { record: Kept::Lost, restarts: 0, ..*self };
        state.forget();
        state.replicas.iter_mut().for_each(|replica| replica.finished = false);
        state.fresh |= self.replicas.iter().all(|replica| replica.pod.is_none());
        // What is left of an earlier attempt looks like a replica that somebody deletes: only the record could tell.
        let left = self.replicas.iter().filter_map(|replica| replica.pod).any(|pod| pod.age != Age::Current);
        state.truth.fatal |= left;
        state
    }

    /// The record is lost, and pods are gone: what only they knew, nobody does.
    fn forget(&mut self) {
        for replica in &mut self.replicas {
            // A cache that still has a pod of an earlier attempt would have it taken for one of this attempt.
            replica.cached = replica.cached.filter(|cached| {
                let past = |pod: Pod| pod.age == Age::Past;
                replica.pod.is_some() || !cached.pod.is_some_and(past)
            });
        }
        let cached = self.replicas.iter().filter_map(|replica| replica.cached?.pod);
        let pods = self.replicas.iter().filter_map(|replica| replica.pod);
        let told = cached.chain(pods).map(|pod| pod.used).max().unwrap_or(0);
        self.truth.paid = self.truth.paid.min(told);
    }

    /// A new job was made from this one's manifest, annotations and all. It has no pods and no past.
    fn copied(&self) -> Self {
        let mut state = Self {
            record: Kept::OfAnother,
            fresh: true,
            conditions: 0,
            started: false,
            truth: Truth::default(),
            ..*self
        };
        for replica in &mut state.replicas {
            *replica = Replica { finished: replica.finished, ..Replica::default() };
        }
        state
    }

    /// The pod of a replica goes on, or goes.
    pub(super) fn happens(&mut self, job: &Job, place: usize, after: Option<Pod>) {
        let replica = &mut self.replicas[place];
        let Some(before) = std::mem::replace(&mut replica.pod, after) else { return };
        let Some(pod) = after else {
            if let Some(cached) = &mut replica.cached {
                cached.same = false;
            }
            if self.record == Kept::Lost {
                self.forget();
            }
            return;
        };
        let policy = job.restart(place);
        let ended = before.life != pod.life && (pod.is_over() || pod.life == Life::Down);
        if pod.life == Life::Succeeded && ended && pod.asked == Asked::Never && pod.age == Age::Current {
            replica.worked = true;
        }
        // `Always` starts a program again whatever its end was, and that is a restart like any other.
        let again = policy == RestartPolicy::Always && pod.life == Life::Succeeded;
        let own = (matches!(pod.life, Life::Failed(_) | Life::Down) || again) && pod.asked == Asked::Never;
        if ended && own {
            self.truth.failures = (self.truth.failures + 1).min(job.detail.most_restarts());
            self.truth.fatal |= policy == RestartPolicy::ExitCode && pod.life == Life::Failed(1);
        }
        // A replica that may not be restarted fails its job by any end but success.
        let hurt = pod.is_over() && pod.life != Life::Succeeded || pod.asked != before.asked;
        self.truth.fatal |= policy == RestartPolicy::Never && hurt;
    }

    /// A request of the operator's arrives.
    pub(super) fn arrive(&mut self, job: &Job, place: usize) {
        let replica = &mut self.replicas[place];
        let Some(flight) = replica.flight.take() else { return };
        match (flight, &mut replica.pod) {
            (Flight::Create(again, used), None) => {
                replica.pod = Some(Pod { used, again, ..Pod::NEW });
                // The answer to a request goes into the cache.
                replica.cached = None;
            }
            (Flight::Create(..), Some(_)) => replica.cached = None,
            (Flight::Delete, Some(pod)) => {
                let mut asked = *pod;
                asked.ask();
                // Whatever the operator does to a pod is no failure of the job's.
                let fatal = self.truth.fatal;
                self.happens(job, place, Some(asked));
                self.truth.fatal = fatal;
            }
            (Flight::Stop, Some(pod)) => pod.stopped = true,
            (Flight::Delete | Flight::Stop, None) => {}
        }
    }

    /// Takes over a record: numbers that were raised make pods of the past.
    pub(super) fn remember(&mut self, job: &Job, record: &Record) {
        let base = self.base();
        let anew = record.attempt > base.0;
        let was_lost = self.record == Kept::Lost;
        self.restarts = u8::try_from(record.restarts.min(u32::from(u8::MAX))).unwrap();
        self.record = Kept::Own;
        self.fresh = record.attempt == 0 && record.replaced.values().flatten().all(|(_, n)| *n == 0);
        let mut paid = 0;
        // Nothing is paid for what the user does not want any more, or did not want until now.
        let was_suspended =
            job.list(self.conditions).iter().any(|c| c.type_ == types::SUSPENDED && c.status == "True");
        let wanted = if self.suspend || was_suspended { 0 } else { self.wanted(job) };
        for (place, (slot, replica)) in job.view.slots().zip(&mut self.replicas).enumerate() {
            let (role, index) = (&slot.role.name, slot.index);
            let incarnation = record.incarnation(role, index);
            let age = |pod: &Pod| {
                let (attempt, own) = pod.numbers(base);
                if attempt < record.attempt {
                    Age::Past
                } else if own < incarnation {
                    Age::Replaced
                } else {
                    Age::Current
                }
            };
            replica.finished = record.is_finished(role, index);
            let seen = replica.cached.map_or(replica.pod, |cached| cached.pod);
            let failed = seen.filter(|pod| pod.age == Age::Current && pod.failed_by_itself());
            paid += u8::from(place < wanted && failed.is_some_and(|pod| age(&pod) != Age::Current));
            let replaced =
                replica.pod.is_some_and(|pod| pod.age == Age::Current && age(&pod) != Age::Current);
            if anew || (replaced && !replica.pod.is_some_and(Pod::worked)) {
                replica.worked = false;
            }
            let cached = replica.cached.as_mut().and_then(|cached| cached.pod.as_mut());
            for pod in replica.pod.as_mut().into_iter().chain(cached) {
                pod.age = age(pod);
            }
            // A record that was lost may make a pod of the past the current one again.
            let current = |pod: Pod| pod.age == Age::Current || (was_lost && replica.finished);
            replica.worked |= replica.pod.is_some_and(|pod| current(pod) && pod.worked());
        }
        let paid = if anew { paid.min(1) } else { paid };
        self.truth.paid = (self.truth.paid + paid).min(job.detail.most_restarts());
    }

    /// Leaves out what makes no difference, and puts the rest in an order: what differs only in that is one state.
    pub(super) fn settle(&mut self, job: &Job) {
        self.restarts = self.restarts.min(job.detail.most_restarts());
        let over = self.is_over(job);
        if over {
            self.refuses = Refuses::Nothing;
            (self.suspend, self.broken, self.started, self.truth) = (false, false, true, Truth::default());
        }
        if over && !job.detail.search {
            self.restarts = 0;
        }
        for replica in &mut self.replicas {
            replica.finished &= !over || job.detail.search;
            replica.worked &= !over && job.detail.search;
            let cached = replica.cached.as_mut().and_then(|cached| cached.pod.as_mut());
            for pod in replica.pod.as_mut().into_iter().chain(cached) {
                pod.settle(job.detail);
            }
        }
        // The first replica of a role may be special; the others are alike. When the job was scaled, the last one is one
        // that nobody asks for.
        let mut first = 0;
        for role in &job.view.roles {
            let end = first + role.replicas as usize;
            let last = end.min(self.wanted(job)).max(first);
            self.replicas[(first + 1).min(last)..last].sort_unstable();
            first = end;
        }
    }
}
