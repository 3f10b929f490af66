//! Jobs that cannot be planned: the object does not decode, or breaks a rule.
//!
//! Such a job fails, with the field and what is wrong with it, unless it has pods that live. Those were started from a
//! spec that was good; a slip in an edit must not end a training of days.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trainyard_api::reasons::suffix;
use trainyard_api::{ConditionStatus, JobStatus};

use crate::conditions::{self, Change, types};
use crate::field_error::{FieldError, one_line};
use crate::framework::Framework;
use crate::job::JobView;
use crate::kind::Kind;
use crate::plan::{Plan, verdict};
use crate::pod::{Phase, PodView};
use crate::report::{Notice, Report};
use crate::seen::Seen;
use crate::steps::tracking::release_all;
use crate::validate::MAX_REPLICAS;

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
    /// True when somebody looked whether it has done what it was for, and it has not.
    pub judged: bool,
    /// What is wrong.
    pub errors: &'a [FieldError],
    /// Its pods.
    pub pods: &'a [PodView],
}

/// Decides about a job that decodes and breaks a rule. Its verdict comes first: a job that has done what it was for has
/// succeeded, whatever somebody did to its spec meanwhile.
pub fn plan_broken(framework: &dyn Framework, seen: &Seen<'_>, errors: &[FieldError]) -> Plan {
    let job = as_it_was_good(seen, errors);
    let (record, wake) = match verdict(framework, &Seen { job: &job, ..*seen }) {
        Ok(plan) => return plan,
        Err(unfinished) => unfinished,
    };
    let invalid = InvalidJob {
        kind: job.kind,
        namespace: &job.namespace,
        name: &job.name,
        deleting: job.deleting,
        managed_elsewhere: job.policy.managed_elsewhere,
        status: &job.status,
        judged: true,
        errors,
        pods: seen.pods,
    };
    Plan { record, wake, ..plan_invalid(&invalid, seen.now) }
}

/// The job with the replicas that it had when its spec was good. A number of replicas that is no error itself is what the user
/// wants. In place of one that is, pods and record tell how many there were; a replica too many costs a verdict, one too
/// few would make a false success.
fn as_it_was_good(seen: &Seen<'_>, errors: &[FieldError]) -> JobView {
    let mut job = seen.job.clone();
    for role in &mut job.roles {
        if !errors.iter().any(|error| is_about_replicas(job.kind, &role.name, error)) {
            continue;
        }
        let there = seen.pods.iter().filter(|pod| *pod.role == *role.label).filter_map(|pod| pod.index);
        let done = job.record.finished.get(&role.name).into_iter().flatten();
        let replaced = job.record.replaced.get(&role.name).into_iter().flat_map(BTreeMap::keys);
        let last = there.chain(done.chain(replaced).copied()).max().unwrap_or(0);
        role.replicas = last.saturating_add(1).min(MAX_REPLICAS);
    }
    job
}

/// True when an error is about how many replicas of this type there are, or about how many there are in all.
fn is_about_replicas(kind: &Kind, role: &str, error: &FieldError) -> bool {
    let own = format!("{}.replicas", kind.role_path(role));
    error.path.eq_ignore_ascii_case(&own) || error.path == format!("spec.{}", kind.replica_specs)
}

/// Decides about a job that cannot be planned. It never touches a pod, but lets them go with the job.
pub fn plan_invalid(job: &InvalidJob<'_>, now: Timestamp) -> Plan {
    if job.deleting || conditions::is_finished(job.status) {
        return Plan { actions: release_all(job.pods), ..Plan::default() };
    }
    if job.managed_elsewhere {
        return Plan::default();
    }
    let alive = job.pods.iter().filter(|pod| !pod.phase.is_over()).count();
    let what = one_line(job.errors);
    let subject = format!("{} {}/{}", job.kind.name, job.namespace, job.name);
    let reason = job.kind.reason(suffix::INVALID_SPEC);
    let may_have_succeeded = !job.judged && job.pods.iter().any(|pod| pod.phase == Phase::Succeeded);
    let (type_, message) = if alive == 0 && may_have_succeeded {
        let message = format!(
            "{subject}: the spec is invalid: {what}. Its pods have ended; correct the spec, so that the job can be judged."
        );
        (types::INVALID_SPEC, message)
    } else if alive == 0 {
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
        conditions::lower(&mut status, types::RESTARTING);
        conditions::remove(&mut status, types::INVALID_SPEC);
    } else if !job.pods.iter().any(|pod| pod.phase == Phase::Running && pod.deleting.is_none()) {
        // A job runs while one of its pods does, also if nothing is done about it.
        conditions::lower(&mut status, types::RUNNING);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn pod(phase: Phase) -> PodView {
        PodView {
            name: "j-worker-0".into(),
            uid: "u".into(),
            role: "worker".into(),
            index: Some(0),
            labelled: true,
            phase,
            ..PodView::default()
        }
    }

    fn planned(status: &JobStatus, pods: &[PodView]) -> JobStatus {
        let errors = &[FieldError::required("spec.x", "must be there")];
        let (kind, namespace, name) = (kinds::ALL[0], "n", "j");
        let (deleting, managed_elsewhere, judged) = (false, false, false);
        let job =
            InvalidJob { kind, namespace, name, deleting, managed_elsewhere, status, judged, errors, pods };
        plan_invalid(&job, Timestamp::UNIX_EPOCH).status.unwrap_or_else(|| status.clone())
    }

    fn shape(status: &JobStatus) -> String {
        let words: Vec<_> = status.conditions.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        words.join(" ")
    }

    #[test]
    fn a_job_whose_pods_wait_does_not_run() {
        let mut status = JobStatus::default();
        let running = Change { type_: types::RUNNING, status: "True", reason: "R", message: "m" };
        conditions::set(&mut status, running, Timestamp::UNIX_EPOCH);
        let still = planned(&status, &[pod(Phase::Running), pod(Phase::Pending)]);
        assert_eq!(shape(&still), "Running=True InvalidSpec=True");
        let waits = planned(&still, &[pod(Phase::Failed), pod(Phase::Pending)]);
        assert_eq!(shape(&waits), "Running=False InvalidSpec=True");
    }

    #[test]
    fn a_job_that_may_have_succeeded_does_not_fail_for_its_spec() {
        let ended = planned(&JobStatus::default(), &[pod(Phase::Succeeded), pod(Phase::Failed)]);
        assert_eq!(shape(&ended), "InvalidSpec=True");
        assert_eq!(shape(&planned(&JobStatus::default(), &[pod(Phase::Failed)])), "Failed=True");
    }

    #[test]
    fn a_job_that_fails_for_its_spec_says_so_once() {
        let waiting = planned(&JobStatus::default(), &[pod(Phase::Pending)]);
        assert_eq!(shape(&waiting), "InvalidSpec=True");
        assert_eq!(shape(&planned(&waiting, &[])), "Failed=True");
    }
}
