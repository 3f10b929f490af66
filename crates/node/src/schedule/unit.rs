//! What is placed in one go: a pod, a whole gang, or one more pod of a gang that has begun.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Decision, Placed, Waiting};

/// What is placed in one go.
#[derive(Clone, Debug)]
pub(super) struct Unit<'a> {
    /// Those that wait, oldest first.
    pub(super) members: Vec<&'a Waiting>,
    /// Those of the same gang that have been placed.
    pub(super) own: Vec<&'a Placed>,
    /// So many of the members start together, or none.
    pub(super) at_least: usize,
    /// So many must exist before.
    pub(super) needed: usize,
    /// So many do.
    pub(super) exist: usize,
    /// Its gang has begun, and is not whole without it.
    pub(super) urgent: bool,
}

impl<'a> Unit<'a> {
    /// The first member, which stands for all of them in messages.
    pub(super) fn first(&self) -> Option<&'a Waiting> {
        self.members.first().copied()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.members.iter().find_map(|pod| pod.problem.as_deref())
    }

    pub(super) fn has_waited(&self, seconds: i64, now: Timestamp) -> bool {
        self.first().is_some_and(|pod| now.as_second().saturating_sub(pod.created_at.as_second()) >= seconds)
    }

    /// The same decision for every member.
    pub(super) fn wait(&self, message: &str, never: bool) -> Vec<Decision> {
        let wait =
            |pod: &&Waiting| Decision::Wait { pod: pod.key.clone(), message: message.to_owned(), never };
        self.members.iter().map(wait).collect()
    }
}

/// Everything that waits, in the order it is looked at.
pub(super) fn in_order<'a>(waiting: &'a [Waiting], placed: &'a [Placed]) -> Vec<Unit<'a>> {
    let mut sorted: Vec<&Waiting> = waiting.iter().collect();
    sorted.sort_by_key(|pod| (pod.created_at, &pod.key));
    let mut gangs: BTreeMap<&str, (Vec<&Waiting>, Vec<&Placed>)> = BTreeMap::new();
    for pod in placed {
        if let Some(gang) = &pod.gang {
            gangs.entry(&gang.id).or_default().1.push(pod);
        }
    }
    let mut units = Vec::new();
    for pod in sorted {
        match &pod.gang {
            Some(gang) => gangs.entry(&gang.id).or_default().0.push(pod),
            None => units.push(single(pod, Vec::new(), false)),
        }
    }
    for (members, own) in gangs.into_values().filter(|(members, _)| !members.is_empty()) {
        units.extend(of_gang(members, own));
    }
    units.sort_by_key(|unit| (!unit.urgent, unit.first().map(|pod| (pod.created_at, &pod.key))));
    units
}

fn single<'a>(pod: &'a Waiting, own: Vec<&'a Placed>, urgent: bool) -> Unit<'a> {
    Unit { members: vec![pod], own, at_least: 1, needed: 1, exist: 1, urgent }
}

/// A gang that has not begun is one unit. Of one that has, every pod is a unit of its own, for waiting longer would
/// make nothing whole; those beyond its size (an elastic gang) are in no hurry.
fn of_gang<'a>(members: Vec<&'a Waiting>, own: Vec<&'a Placed>) -> Vec<Unit<'a>> {
    let sizes = members.iter().map(|pod| &pod.gang).chain(own.iter().map(|pod| &pod.gang));
    let size = sizes.flatten().map(|gang| gang.size).max().unwrap_or_default();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if own.is_empty() {
        let exist = members.len();
        return vec![Unit {
            members,
            own,
            at_least: size.clamp(1, exist.max(1)),
            needed: size,
            exist,
            urgent: false,
        }];
    }
    let mut missing = size.saturating_sub(own.len());
    let mut units = Vec::with_capacity(members.len());
    for pod in members {
        let joins = pod.gang.as_ref().is_some_and(|gang| gang.size == 0);
        units.push(single(pod, own.clone(), joins || missing > 0));
        if !joins {
            missing = missing.saturating_sub(1);
        }
    }
    units
}
