//! The operator on a walk: it looks, plans with the real engine, and comes as far as the walk lets it.

use jiff::Timestamp;
use serde_json::Value;
use trainyard_api::{JobStatus, labels};
use trainyard_core::conditions::{is_finished, stamp};
use trainyard_core::*;

use super::job::{Job, USED, show_numbers};
use super::moves::{Move, Step, Time};
use super::pod::{Again, EARLY, LATE};
use super::rules;
use super::state::{Flight, Kept, Refuses, State};

/// What the operator made of a state, and what is wrong with that.
pub(super) struct Looked {
    /// How it may go on: all is done, or only a part of it.
    pub(super) next: Vec<Step>,
    /// It wants to look again later, even if nothing happens.
    pub(super) waits: bool,
    /// It asks for something about pods.
    pub(super) acts: bool,
    pub(super) wrong: Vec<String>,
}

impl Looked {
    /// What all of it leads to.
    pub(super) fn whole(&self) -> State {
        self.next[0].state
    }
}

impl State {
    /// The operator looks.
    pub(super) fn look(&self, job: &mut Job, time: Time) -> Looked {
        let seen = self.seen(job);
        let pods = self.cached_pods(job);
        let second = if time == Time::Late { LATE } else { EARLY };
        let now = Timestamp::from_second(second).unwrap();
        let refused = self.refused(now);
        let mut plan = job.plan(&seen, &pods, &refused, self.broken, now);
        let status = plan.status.as_ref().unwrap_or(&seen.status);
        let mut wrong = rules::of_a_plan(self, job, &seen, status, &plan, time);
        if self.refuses == Refuses::Status && plan.status.take().is_some() {
            // What the server does not store is not so, and nothing is done that comes after it.
            plan.actions.clear();
        }
        let status = plan.status.as_ref().unwrap_or(&seen.status);

        let mut recorded = *self;
        if let Some(record) = &plan.record {
            recorded.remember(job, record);
        } else if self.record == Kept::Lost {
            // It goes on from no record at all: pods of the first attempt are of this one.
            recorded.remember(job, &seen.record);
            recorded.record = Kept::Lost;
        }
        let mut told = recorded;
        told.started = status.start_time.is_some();
        told.conditions = job.number(&status.conditions);
        let requests: Vec<_> = plan.actions.iter().filter_map(|action| request(job, action)).collect();
        let mut sent = told;
        for (place, flight) in &requests {
            wrong.extend(told.send(job, &mut sent, *place, *flight));
        }
        let mut whole = sent;
        (0..job.view.slots().count()).for_each(|place| whole.arrive(job, place));
        wrong.extend(rules::of_a_step(self, &whole, job));

        let step = |what: Move, fault: bool, state: Self| Step { what, fault, state };
        let mut next = vec![step(Move::Look(time), false, whole)];
        if job.detail.search {
            if sent.is_busy() {
                next.push(step(Move::LookSlowly(time), true, sent));
                next.push(step(Move::DieAfterStatus(time), true, told));
            }
            if plan.record.is_some() {
                next.push(step(Move::DieAfterRecord(time), true, recorded));
            }
        }
        next.iter_mut().for_each(|step| step.state.settle(job));
        for text in &mut wrong {
            *text = format!("{text}, from [{}] {self:?}", job.shape(self.conditions));
        }
        Looked { next, waits: plan.wake.is_some(), acts: !requests.is_empty(), wrong }
    }

    /// What the operator remembers of refused records: it has just tried, for the third time.
    fn refused(&self, at: Timestamp) -> Vec<WriteFailure> {
        let failure = || {
            let (name, message) = ("j".to_owned(), "refused".to_owned());
            WriteFailure { what: &Resource::RECORD, name, code: 500, message, at, count: 3 }
        };
        (self.refuses == Refuses::Record).then(failure).into_iter().collect()
    }

    /// Sends a request; says what is wrong with it.
    fn send(&self, job: &Job, sent: &mut Self, place: usize, flight: Flight) -> Option<String> {
        let name = || job.view.slots().nth(place).map(|slot| slot.child_name(&job.view)).unwrap();
        let replica = &self.replicas[place];
        let seen = replica.cached.map_or(replica.pod, |cached| cached.pod);
        let there = replica.cached.is_none_or(|cached| cached.same);
        match (flight, seen) {
            (Flight::Create(..), Some(_)) => return Some(format!("{} is created twice", name())),
            (Flight::Create(..), None) if replica.finished && self.record == Kept::Own => {
                return Some(format!("{} is created after it has succeeded", name()));
            }
            (Flight::Delete | Flight::Stop, None) => {
                return Some(format!("{} is deleted and is not there", name()));
            }
            _ => {}
        }
        // Deletions name the very pod that was seen.
        if there || matches!(flight, Flight::Create(..)) {
            sent.replicas[place].flight = Some(flight);
        }
        None
    }

    /// The job as the engine is shown it.
    fn seen(&self, job: &Job) -> JobView {
        let early = stamp(Timestamp::from_second(EARLY).unwrap());
        let mut view = self.spec(job).clone();
        let base = if self.record == Kept::OfAnother { USED } else { self.base() };
        show_numbers(&mut view, &job.view, base);
        view.policy.suspend = self.suspend;
        let mut status = JobStatus { conditions: job.list(self.conditions).to_vec(), ..JobStatus::default() };
        status.start_time = self.started.then(|| early.clone());
        status.completion_time = is_finished(&status).then_some(early);
        view.record.restarts = self.restarts.into();
        for (slot, _) in job.view.slots().zip(&self.replicas).filter(|(_, replica)| replica.finished) {
            view.record.finish(&slot.role.name, slot.index);
        }
        match self.record {
            Kept::Own => view.status = status,
            Kept::Lost => {
                (view.record, view.has_record, view.status) = (Record::blank(&view.uid), false, status);
            }
            Kept::OfAnother => {
                let copy = job.with_record_of_another(&view.record, &status);
                (view.record, view.has_record, view.status) = (copy.record, copy.has_record, copy.status);
            }
        }
        view
    }

    /// The pods as the operator's cache has them.
    fn cached_pods(&self, job: &Job) -> Vec<PodView> {
        let container = job.framework.facts().container;
        let slots = job.view.slots().zip(&self.replicas);
        let seen = slots.filter_map(|(slot, replica)| {
            let pod = replica.cached.map_or(replica.pod, |cached| cached.pod)?;
            Some(pod.view(&job.view, slot, container, self.base()))
        });
        seen.collect()
    }
}

/// An action of a plan, as far as it is about a pod, and whose pod it is about.
fn request(job: &Job, action: &Action) -> Option<(usize, Flight)> {
    let (name, flight) = match action {
        Action::Create(child) if *child.what == Resource::POD => {
            let policy = child.body.pointer("/spec/restartPolicy").and_then(Value::as_str);
            let used =
                child.body.pointer(&format!("/metadata/annotations/{}", labels::USED.replace('/', "~1")));
            let used = used.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0);
            (&child.name, Flight::Create(Again::parse(policy.unwrap_or_default()), used))
        }
        Action::Delete { what, name, .. } if **what == Resource::POD => (name, Flight::Delete),
        Action::Amend { what, name, patch, .. } if **what == Resource::POD => {
            patch.pointer("/spec/activeDeadlineSeconds")?;
            (name, Flight::Stop)
        }
        _ => return None,
    };
    let place = job.view.slots().position(|slot| slot.child_name(&job.view) == *name).unwrap();
    // Walks without trouble know nothing of deadlines, and let the kubelet do as the replica type says.
    match flight {
        Flight::Stop if !job.detail.search => None,
        Flight::Create(..) if !job.detail.search => {
            Some((place, Flight::Create(Again::parse(job.restart(place).of_pod()), 0)))
        }
        flight => Some((place, flight)),
    }
}
