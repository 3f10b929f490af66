//! Jobs that cannot be planned: the object does not decode, or breaks a rule.
//!
//! Such a job fails, with the field and what is wrong with it, unless it has pods that live. Those were started from a
//! spec that was good; a slip in an edit must not end a training of days.

use jiff::Timestamp;
use trainyard_api::reasons::suffix;
use trainyard_api::{ConditionStatus, JobStatus};

use crate::conditions::{self, Change, types};
use crate::field_error::{FieldError, one_line};
use crate::kind::Kind;
use crate::plan::Plan;
use crate::pod::PodView;
use crate::report::{Notice, Report};

/// What is known of a job that cannot be planned.
#[derive(Clone, Copy, Debug)]
pub struct InvalidJob<'a> {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// True once the user deleted it.
    pub deleting: bool,
    /// True when another controller runs it.
    pub managed_elsewhere: bool,
    /// Its status as stored, as far as that could be read.
    pub status: &'a JobStatus,
    /// What is wrong.
    pub errors: &'a [FieldError],
    /// Its pods.
    pub pods: &'a [PodView],
}

/// Decides about a job that cannot be planned. It never touches a pod.
pub fn plan_invalid(job: &InvalidJob<'_>, now: Timestamp) -> Plan {
    if job.deleting || job.managed_elsewhere || conditions::is_finished(job.status) {
        return Plan::default();
    }
    let alive = job.pods.iter().filter(|pod| !pod.phase.is_over()).count();
    let what = one_line(job.errors);
    let subject = format!("{} {}/{}", job.kind.name, job.namespace, job.name);
    let reason = job.kind.reason(suffix::INVALID_SPEC);
    let (type_, message) = if alive == 0 {
        (
            types::FAILED,
            format!("{subject}: the spec is invalid: {what}. Correct it and create the job again."),
        )
    } else {
        let message = format!(
            "{subject}: the spec is invalid: {what}. Its {alive} running pod(s) are left alone; correct the spec."
        );
        (types::INVALID_SPEC, message)
    };
    let mut status = job.status.clone();
    let change = Change { type_, status: ConditionStatus::TRUE, reason: &reason, message: &message };
    if type_ == types::FAILED {
        conditions::end_restarting(&mut status);
    }
    let changed = conditions::set(&mut status, change, now);
    if type_ == types::FAILED && status.completion_time.is_none() {
        status.completion_time = Some(conditions::stamp(now));
    }
    let mut report = Report::default();
    report.say("invalid", &message);
    Plan {
        events: if changed { vec![Notice::warning(reason, message)] } else { Vec::new() },
        status: (status != *job.status).then_some(status),
        report,
        ..Plan::default()
    }
}
