//! The plan: everything that is decided about a job in one look at it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trainyard_api::JobStatus;

use crate::action::{Action, Resource, Why};
use crate::conditions::{self, Change};
use crate::framework::Framework;
use crate::job::{JobView, Slot};
use crate::pod::PodView;
use crate::record::Record;
use crate::report::{Notice, Report};
use crate::seen::{Ask, Seen, ServiceView};
use crate::steps;
use crate::steps::slots::Slots;
use crate::steps::tally::{Tally, is_done};

/// What to do about a job, in this order: write `record`, write `status`, carry out `actions` (in any order, in
/// parallel), show `events`, look again at `wake`.
///
/// Both writes are made on condition of the resourceVersion that was seen. So whoever carries out a plan made from
/// a stale job learns of it before the first action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The record to be stored, if it changed.
    pub record: Option<Record>,
    /// The status to be stored, if it changed.
    pub status: Option<JobStatus>,
    /// What to do.
    pub actions: Vec<Action>,
    /// What to show on the job.
    pub events: Vec<Notice>,
    /// A log that would make the plan say more: whoever can read it makes the plan again with its end.
    pub ask: Option<Ask>,
    /// When to look again even if nothing happens.
    pub wake: Option<Timestamp>,
    /// Why, step by step.
    pub report: Report,
}

/// Whether later steps have anything to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// They do.
    Go,
    /// The plan is complete.
    Done,
}

/// Decides what a job needs next. Pure: the same `seen` gives the same plan.
pub fn plan(framework: &dyn Framework, seen: &Seen<'_>) -> Plan {
    const STEPS: &[fn(&mut Draft<'_>) -> Flow] = &[
        steps::ownership::apply,
        steps::terminal::apply,
        steps::created::apply,
        steps::suspension::apply,
        steps::verdict::apply,
        steps::deadline::apply,
        steps::start::apply,
        steps::restart::apply,
        steps::ports::apply,
        steps::extras::apply,
        steps::gang::apply,
        steps::services::apply,
        steps::replicas::apply,
        steps::status::apply,
        steps::waiting::apply,
    ];
    let mut draft = Draft::new(framework, seen);
    for step in STEPS {
        if step(&mut draft) == Flow::Done {
            break;
        }
    }
    steps::tracking::apply(&mut draft);
    steps::unwritten::apply(&mut draft);
    draft.finish()
}

/// Looks only whether a job has done what it was for: the plan of its end if it has, else what is to be remembered, and when
/// to try that again if the server refuses it.
pub(crate) fn verdict(
    framework: &dyn Framework,
    seen: &Seen<'_>,
) -> Result<Plan, (Option<Record>, Option<Timestamp>)> {
    let mut draft = Draft::new(framework, seen);
    if steps::ownership::apply(&mut draft) == Flow::Done || conditions::is_finished(&draft.status) {
        return Err((None, None));
    }
    let has_ended = steps::verdict::apply(&mut draft) == Flow::Done;
    if has_ended {
        steps::tracking::apply(&mut draft);
    }
    steps::unwritten::apply(&mut draft);
    let plan = draft.finish();
    if has_ended { Ok(plan) } else { Err((plan.record, plan.wake)) }
}

/// Why no replica may be created now.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// In one word, as the end of a condition's reason.
    pub(crate) suffix: &'static str,
    /// In a few.
    pub(crate) text: String,
}

/// A plan in the making. Steps read what was seen and write what they decide.
pub(crate) struct Draft<'a> {
    pub(crate) framework: &'a dyn Framework,
    pub(crate) seen: Seen<'a>,
    pub(crate) slots: Slots<'a>,
    pub(crate) tally: Tally,
    pub(crate) record: Record,
    pub(crate) status: JobStatus,
    /// A reason for which no replica may be created now.
    pub(crate) hold: Option<Hold>,
    actions: Vec<Action>,
    events: Vec<Notice>,
    pub(crate) ask: Option<Ask>,
    wake: Option<Timestamp>,
    report: Report,
}

impl<'a> Draft<'a> {
    fn new(framework: &'a dyn Framework, seen: &Seen<'a>) -> Self {
        let slots = Slots::new(seen);
        let record = steps::adoption::record(seen, &slots);
        Self {
            framework,
            tally: Tally::count(seen, &slots, &record, framework.facts().container),
            slots,
            record,
            status: seen.job.status.clone(),
            seen: *seen,
            hold: None,
            actions: Vec::new(),
            events: Vec::new(),
            ask: None,
            wake: None,
            report: Report::default(),
        }
    }

    fn finish(self) -> Plan {
        let job = self.seen.job;
        Plan {
            record: (self.record != job.record).then_some(self.record),
            status: (self.status != job.status).then_some(self.status),
            actions: self.actions,
            events: self.events,
            ask: self.ask,
            wake: self.wake,
            report: self.report,
        }
    }

    pub(crate) fn job(&self) -> &'a JobView {
        self.seen.job
    }

    /// True when the replica of this pod has done its work.
    pub(crate) fn is_done(&self, slot: Slot<'_>, pod: &PodView) -> bool {
        is_done(self.job(), slot, pod, self.framework.facts().container)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.seen.now
    }

    pub(crate) fn stamp(&self) -> Time {
        conditions::stamp(self.seen.now)
    }

    /// Counts anew after the record changed, so that the status tells of what this plan is about to do.
    pub(crate) fn recount(&mut self) {
        let container = self.framework.facts().container;
        self.tally = Tally::count(&self.seen, &self.slots, &self.record, container);
    }

    /// No replica may be created now. The first reason stays.
    pub(crate) fn hold(&mut self, suffix: &'static str, text: impl Into<String>) {
        self.hold.get_or_insert_with(|| Hold { suffix, text: text.into() });
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Drops all other actions, and what was to be told: it is told when it is done.
    pub(crate) fn keep_only(&mut self, stays: impl Fn(&Action) -> bool) {
        self.actions.retain(stays);
        self.events.clear();
    }

    /// True when something is about to be created.
    pub(crate) fn creates(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Create(_)))
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.events.push(notice);
    }

    pub(crate) fn say(&mut self, step: &'static str, text: impl Into<String>) {
        self.report.say(step, text);
    }

    /// Asks to be planned again at `at`, or earlier if somebody else asks for earlier.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Sets a condition of the job; says whether it changed.
    pub(crate) fn set_condition(
        &mut self,
        type_: &str,
        status: &'static str,
        suffix: &str,
        message: &str,
    ) -> bool {
        let reason = self.job().kind.reason(suffix);
        let change = Change { type_, status, reason: &reason, message };
        conditions::set(&mut self.status, change, self.seen.now)
    }

    /// Deletes a pod unless it is going already.
    pub(crate) fn delete_pod(&mut self, pod: &PodView, why: Why) {
        if pod.deleting.is_none() {
            self.act(delete(&Resource::POD, &pod.name, &pod.uid, why));
        }
    }

    /// Deletes a service unless it is going already.
    pub(crate) fn delete_service(&mut self, service: &ServiceView, why: Why) {
        if !service.deleting {
            self.act(delete(&Resource::SERVICE, &service.name, &service.uid, why));
        }
    }
}

fn delete(what: &'static Resource, name: &str, uid: &str, why: Why) -> Action {
    Action::Delete { what, name: name.to_owned(), uid: uid.to_owned(), force: false, why }
}
