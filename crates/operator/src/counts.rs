//! What became of jobs, by namespace and framework, since this operator began.
//!
//! A change is counted when it is in the status, which is written on condition of the version that was seen: so it is
//! counted once, whoever else writes and however often a plan is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use trainyard_api::reasons::suffix;
use trainyard_core::conditions::{self, types};
use trainyard_core::{Kind, Plan};

/// How many jobs of one framework in one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Were taken up.
    pub created: u64,
    /// Are gone, whoever deleted them.
    pub deleted: u64,
    /// Succeeded.
    pub successful: u64,
    /// Failed.
    pub failed: u64,
    /// How often one was restarted, as its events tell.
    pub restarted: u64,
}

/// What can become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Created,
    Deleted,
    Successful,
    Failed,
    Restarted,
}

/// Namespace and framework.
type Whose = (Arc<str>, &'static str);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Whose, JobCounts>>);

impl Counts {
    pub(crate) fn add(&self, namespace: &Arc<str>, kind: &Kind, fate: Fate) {
        let mut all = self.lock();
        let counts = all.entry((Arc::clone(namespace), kind.framework)).or_default();
        let count = match fate {
            Fate::Created => &mut counts.created,
            Fate::Deleted => &mut counts.deleted,
            Fate::Successful => &mut counts.successful,
            Fate::Failed => &mut counts.failed,
            Fate::Restarted => &mut counts.restarted,
        };
        *count = count.saturating_add(1);
    }

    pub(crate) fn all(&self) -> BTreeMap<Whose, JobCounts> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Whose, JobCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a plan whose status has been written means, for a job whose status was `before`.
pub(crate) fn fates(kind: &Kind, before: &Value, plan: &Plan) -> Vec<Fate> {
    let known = |type_: &str| {
        let conditions = before.get("conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| {
            let is = |field: &str, text: &str| one.get(field).and_then(Value::as_str) == Some(text);
            is("type", type_) && is("status", "True")
        })
    };
    let new = |type_: &str| {
        plan.status.as_ref().is_some_and(|status| conditions::is_true(status, type_)) && !known(type_)
    };
    let steps = [
        (types::CREATED, Fate::Created),
        (types::SUCCEEDED, Fate::Successful),
        (types::FAILED, Fate::Failed),
    ];
    let mut fates: Vec<Fate> =
        steps.into_iter().filter(|(type_, _)| new(type_)).map(|(_, fate)| fate).collect();
    let restarting = kind.reason(suffix::RESTARTING);
    if plan.events.iter().any(|notice| notice.reason == restarting) {
        fates.push(Fate::Restarted);
    }
    fates
}
