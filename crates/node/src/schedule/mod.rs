//! Which pods start now: all of a gang or none of it.
//!
//! A pure function of what waits, what runs and what the machine has. Three rules, in this order:
//!
//! 1. A gang that has begun comes before everything else: its other pods hold the machine and wait.
//! 2. First come, first served, by the oldest pod of a gang. What is smaller and later may go past something that does
//!    not fit yet, but not for ever: after [`PATIENCE_SECONDS`] nothing passes it any more.
//! 3. What this machine can never run says so and stands in nobody's way, and so does a gang that is not complete.

mod gang;
mod pods;
mod room;
mod say;
mod unit;

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;

pub use self::gang::Gang;
pub use self::pods::{GPUS, HostPort, gpus_of_container};
pub(crate) use self::pods::{has_ended, split};
use self::room::Room;
use self::unit::Unit;
use crate::demand::Demand;
use crate::inventory::Inventory;

/// For so long what is smaller may pass. Long enough that a queue of small jobs keeps the machine busy, short enough
/// that a large one starts soon after the small ones before it have ended.
pub const PATIENCE_SECONDS: i64 = 60;

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a new pod of the same name is another pod.
    pub uid: String,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod that has not been placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which one.
    pub key: PodKey,
    /// When it came.
    pub created_at: Timestamp,
    /// What it needs.
    pub demand: Demand,
    /// Ports of the machine it wants for itself.
    pub host_ports: BTreeSet<HostPort>,
    /// Whom it starts with.
    pub gang: Option<Gang>,
    /// Why it can never run here, if that is already clear.
    pub problem: Option<String>,
}

/// A pod that has been placed. One that has ended holds nothing, but tells that its gang has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which one.
    pub key: PodKey,
    /// What it holds.
    pub demand: Demand,
    /// Ports of the machine it holds.
    pub host_ports: BTreeSet<HostPort>,
    /// Whom it started with.
    pub gang: Option<Gang>,
    /// The GPUs it holds, by id.
    pub gpus: Vec<String>,
}

/// What becomes of a waiting pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It starts.
    Place {
        /// Which one.
        pod: PodKey,
        /// The GPUs it gets, by id.
        gpus: Vec<String>,
    },
    /// It does not.
    Wait {
        /// Which one.
        pod: PodKey,
        /// Why, for people.
        message: String,
        /// Nothing that ends here will change that.
        never: bool,
    },
}

impl Decision {
    /// The pod it is about.
    pub fn pod(&self) -> &PodKey {
        match self {
            Self::Place { pod, .. } | Self::Wait { pod, .. } => pod,
        }
    }
}

/// One decision per waiting pod. The same input gives the same output, in whatever order pods are listed.
pub fn schedule(
    waiting: &[Waiting],
    placed: &[Placed],
    inventory: &Inventory,
    now: Timestamp,
) -> Vec<Decision> {
    let mut room = Room::new(inventory, placed);
    let mut blocked: Option<String> = None;
    let mut decisions = Vec::with_capacity(waiting.len());
    for unit in unit::in_order(waiting, placed) {
        match fate(&unit, &room, inventory, blocked.as_deref()) {
            Fate::Start(members) => decisions.extend(start(&mut room, &unit, &members)),
            Fate::Never(message) => decisions.extend(unit.wait(&message, true)),
            Fate::Later(message) => decisions.extend(unit.wait(&message, false)),
            Fate::NoRoom(message) => {
                if unit.urgent || unit.has_waited(PATIENCE_SECONDS, now) {
                    blocked = Some(say::behind(&unit));
                }
                decisions.extend(unit.wait(&message, false));
            }
        }
    }
    decisions
}

/// What becomes of pods that start together.
enum Fate<'a> {
    Start(Vec<&'a Waiting>),
    /// It fits on no state of this machine.
    Never(String),
    /// It waits for something else than room.
    Later(String),
    /// It would fit on an emptier machine.
    NoRoom(String),
}

fn fate<'a>(unit: &Unit<'a>, room: &Room<'_>, inventory: &Inventory, blocked: Option<&str>) -> Fate<'a> {
    if let Some(problem) = unit.problem() {
        return Fate::Never(say::never(problem));
    }
    if unit.exist < unit.needed {
        return Fate::Later(say::incomplete(unit));
    }
    // Beside its own gang, for that will not end before it has started.
    let alone = Room::new(inventory, unit.own.iter().copied());
    let at_best = alone.choose(&unit.members, unit.at_least);
    if at_best.is_none() {
        return Fate::Never(say::never(&say::too_large(unit, &alone)));
    }
    if let Some(message) = blocked {
        return Fate::Later(message.to_owned());
    }
    match room.choose(&unit.members, unit.at_least) {
        Some(members) => Fate::Start(members),
        None => Fate::NoRoom(say::no_room(unit, room)),
    }
}

/// Those chosen are placed; the others of an elastic gang join when there is room.
fn start<'a>(room: &mut Room<'a>, unit: &Unit<'a>, chosen: &[&'a Waiting]) -> Vec<Decision> {
    let mut decisions = Vec::with_capacity(unit.members.len());
    for pod in chosen {
        decisions.push(Decision::Place { pod: pod.key.clone(), gpus: room.place(pod) });
    }
    for pod in unit.members.iter().filter(|pod| !chosen.iter().any(|other| other.key == pod.key)) {
        let message = say::surplus(unit, chosen.len());
        decisions.push(Decision::Wait { pod: pod.key.clone(), message, never: false });
    }
    decisions
}
