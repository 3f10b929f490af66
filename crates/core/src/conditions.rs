//! How conditions change: the algorithm that users' scripts and the SDK rely on.
//!
//! The list is ordered by the latest change, so that its last entry is the job's state. A job that has failed keeps
//! its conditions for good.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trainyard_api::{Condition, ConditionStatus, JobStatus};

/// Condition types.
pub mod types {
    /// The job was seen.
    pub const CREATED: &str = "Created";
    /// Replicas cannot start; the message says why. It goes when they can.
    pub const WAITING: &str = "Waiting";
    /// The deciding replica runs.
    pub const RUNNING: &str = "Running";
    /// A replica is being replaced.
    pub const RESTARTING: &str = "Restarting";
    /// The user wants no pods now.
    pub const SUSPENDED: &str = "Suspended";
    /// The job ended well.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The job ended badly.
    pub const FAILED: &str = "Failed";
    /// An option that comes as an annotation has no meaning and is ignored.
    pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";
    /// The spec became unreadable while pods run; nothing is touched until it is readable again.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// True when the condition of that type is True.
pub fn is_true(status: &JobStatus, type_: &str) -> bool {
    status.conditions.iter().any(|c| c.type_ == type_ && c.status == ConditionStatus::TRUE)
}

/// True when the job has ended, one way or the other.
pub fn is_finished(status: &JobStatus) -> bool {
    is_true(status, types::SUCCEEDED) || is_true(status, types::FAILED)
}

/// Times in a status are whole seconds: that is how they are stored, and a status must equal itself read back.
pub fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A condition to be set.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its type.
    pub type_: &'a str,
    /// True or False.
    pub status: &'static str,
    /// One word.
    pub reason: &'a str,
    /// One sentence.
    pub message: &'a str,
}

/// Sets a condition; says whether anything changed.
pub fn set(status: &mut JobStatus, change: Change<'_>, now: Timestamp) -> bool {
    if is_true(status, types::FAILED) {
        return false;
    }
    let old = status.conditions.iter().find(|c| c.type_ == change.type_);
    let same_status = old.is_some_and(|c| c.status == change.status);
    if same_status && old.is_some_and(|c| c.reason.as_deref() == Some(change.reason)) {
        return false;
    }
    let now = stamp(now);
    let transition = old.filter(|_| same_status).and_then(|c| c.last_transition_time.clone());
    let new = Condition {
        type_: change.type_.into(),
        status: change.status.into(),
        reason: Some(change.reason.into()),
        message: Some(change.message.into()),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(transition.unwrap_or(now)),
    };
    status.conditions.retain(|c| c.type_ != change.type_ && Some(c.type_.as_str()) != excludes(change.type_));
    if ends_running(change.type_) {
        for running in status.conditions.iter_mut().filter(|c| c.type_ == types::RUNNING) {
            running.status = ConditionStatus::FALSE.into();
        }
    }
    status.conditions.push(new);
    true
}

/// Sets a condition whose message is the news: it changes with that, too, and keeps its place.
pub fn explain(status: &mut JobStatus, change: Change<'_>, now: Timestamp) -> bool {
    let Some(old) = status.conditions.iter_mut().find(|c| c.type_ == change.type_) else {
        let added = set(status, change, now);
        // The last entry is the job's state, and what it waits for does not end that.
        let created = status.conditions.iter().position(|c| c.type_ == types::CREATED);
        if let (true, Some(tail)) = (added, created.and_then(|at| status.conditions.get_mut(at + 1..))) {
            tail.rotate_right(1);
        }
        return added;
    };
    let same = old.reason.as_deref() == Some(change.reason) && old.message.as_deref() == Some(change.message);
    if !same {
        (old.reason, old.message) = (Some(change.reason.into()), Some(change.message.into()));
        old.last_update_time = Some(stamp(now));
    }
    !same
}

/// Says that a condition is no longer so, and leaves the rest of it and its place. The algorithm above does that for
/// Running at the end of a job, and for nothing else; two states that are both true would leave a reader guessing.
pub fn lower(status: &mut JobStatus, type_: &str) {
    for condition in status.conditions.iter_mut().filter(|c| c.type_ == type_) {
        condition.status = ConditionStatus::FALSE.into();
    }
}

/// Removes a condition that is no longer about anything; says whether there was one.
pub fn remove(status: &mut JobStatus, type_: &str) -> bool {
    let before = status.conditions.len();
    status.conditions.retain(|c| c.type_ != type_);
    status.conditions.len() != before
}

/// Running and Restarting are two names of one place in the list.
fn excludes(type_: &str) -> Option<&'static str> {
    match type_ {
        types::RUNNING => Some(types::RESTARTING),
        types::RESTARTING => Some(types::RUNNING),
        _ => None,
    }
}

fn ends_running(type_: &str) -> bool {
    type_ == types::SUCCEEDED || type_ == types::FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(type_: &'static str, status: &'static str, reason: &'static str) -> Change<'static> {
        Change { type_, status, reason, message: "m" }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shape(status: &JobStatus) -> String {
        let parts: Vec<String> =
            status.conditions.iter().map(|c| format!("{}={}", c.type_, &c.status[..1])).collect();
        parts.join(" ")
    }

    #[test]
    fn a_finished_job_reads_created_running_false_succeeded() {
        let mut status = JobStatus::default();
        for (i, type_) in [types::CREATED, types::RUNNING, types::SUCCEEDED].into_iter().enumerate() {
            assert!(set(&mut status, change(type_, "True", "R"), at(i as i64)));
        }
        assert_eq!(shape(&status), "Created=T Running=F Succeeded=T");
        let running = &status.conditions[1];
        assert_eq!(running.last_update_time, Some(stamp(at(1))), "the flipped entry keeps its times");
    }

    #[test]
    fn restarting_and_running_replace_each_other_and_move_to_the_end() {
        let mut status = JobStatus::default();
        for type_ in [types::CREATED, types::RUNNING, types::RESTARTING] {
            set(&mut status, change(type_, "True", "R"), at(0));
        }
        assert_eq!(shape(&status), "Created=T Restarting=T");
        set(&mut status, change(types::RUNNING, "True", "R"), at(1));
        assert_eq!(shape(&status), "Created=T Running=T");
    }

    #[test]
    fn a_message_alone_changes_nothing_and_a_reason_keeps_the_transition_time() {
        let mut status = JobStatus::default();
        set(&mut status, change(types::SUSPENDED, "True", "A"), at(1));
        let again = Change { message: "other", ..change(types::SUSPENDED, "True", "A") };
        assert!(!set(&mut status, again, at(2)));
        assert!(set(&mut status, change(types::SUSPENDED, "True", "B"), at(3)));
        assert_eq!(status.conditions[0].last_transition_time, Some(stamp(at(1))));
        assert_eq!(status.conditions[0].last_update_time, Some(stamp(at(3))));
        assert!(set(&mut status, change(types::SUSPENDED, "False", "B"), at(4)));
        assert_eq!(status.conditions[0].last_transition_time, Some(stamp(at(4))));
    }

    #[test]
    fn an_explanation_stands_after_created_and_follows_its_message() {
        let mut status = JobStatus::default();
        for type_ in [types::CREATED, types::RUNNING] {
            set(&mut status, change(type_, "True", "R"), at(0));
        }
        assert!(explain(&mut status, change(types::WAITING, "True", "A"), at(1)));
        assert_eq!(shape(&status), "Created=T Waiting=T Running=T");
        assert!(!explain(&mut status, change(types::WAITING, "True", "A"), at(2)));
        let other = Change { message: "other", ..change(types::WAITING, "True", "A") };
        assert!(explain(&mut status, other, at(3)));
        assert_eq!(status.conditions[1].message.as_deref(), Some("other"));
        assert_eq!(status.conditions[1].last_transition_time, Some(stamp(at(1))));
    }

    #[test]
    fn failed_freezes_everything() {
        let mut status = JobStatus::default();
        set(&mut status, change(types::FAILED, "True", "R"), at(0));
        assert!(!set(&mut status, change(types::SUCCEEDED, "True", "R"), at(1)));
        assert_eq!(shape(&status), "Failed=T");
    }
}
