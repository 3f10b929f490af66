//! Why something waits, in words. Nothing that only time changes is in them: they go into a status, and a status that
//! changes is written.

use super::room::{Room, Shortage, clashes};
use super::unit::Unit;
use super::{PodKey, Waiting};
use crate::demand::Demand;
use crate::quantity::{format_bytes, format_millis, units};

/// So many names are enough to know where to look.
const NAMES: usize = 3;

pub(super) fn never(why: &str) -> String {
    format!("0/1 nodes are available: {why}: it can never run here")
}

pub(super) fn incomplete(unit: &Unit<'_>) -> String {
    format!("waiting for the gang: {} of {} pods exist", unit.exist, unit.needed)
}

pub(super) fn surplus(unit: &Unit<'_>, started: usize) -> String {
    format!("waiting for room: the gang starts with {started} of {} pods", unit.members.len())
}

/// For those that come after it.
pub(super) fn behind(unit: &Unit<'_>) -> String {
    let name = unit.first().map(|pod| pod.key.to_string()).unwrap_or_default();
    let why =
        if unit.urgent { "its gang has begun and is not whole" } else { "it came first and has waited long" };
    format!("waiting behind {name}: {why}, so nothing passes it")
}

/// What the machine as a whole has too little of.
pub(super) fn too_large(unit: &Unit<'_>, alone: &Room<'_>) -> String {
    let demand = smallest(unit);
    let who = who(unit);
    let beside = if unit.own.is_empty() { "" } else { " beside the other pods of its gang" };
    let mut lacks: Vec<String> = alone
        .shortages(&demand)
        .map(|short| {
            let (total, needs) = (amount(short.resource, short.total), amount(short.resource, short.needs));
            format!("this machine has {total} {}, {who} needs {needs}{beside}", short.resource)
        })
        .collect();
    lacks.extend(
        unit.members
            .iter()
            .find_map(|pod| alone.taken_port(pod))
            .map(|(port, key)| format!("host port {} is in use by {key}, a pod of the same gang", port.port)),
    );
    lacks.extend(clash(&unit.members).map(|port| format!("two pods of {who} want host port {port}")));
    if lacks.is_empty() {
        lacks.push(format!("this machine is too small for {who}"));
    }
    lacks.join("; ")
}

/// What is in use by others.
pub(super) fn no_room(unit: &Unit<'_>, room: &Room<'_>) -> String {
    let demand = smallest(unit);
    let whom = if unit.members.len() > 1 { format!(" for {}", who(unit)) } else { String::new() };
    let mut lacks: Vec<String> = room.shortages(&demand).map(|short| in_use(&short, &whom, room)).collect();
    lacks.extend(
        unit.members
            .iter()
            .find_map(|pod| room.taken_port(pod))
            .map(|(port, key)| format!("waiting for host port {}: in use by {key}", port.port)),
    );
    if lacks.is_empty() {
        lacks.push(format!("waiting for room{whom}"));
    }
    lacks.join("; ")
}

fn in_use(short: &Shortage<'_>, whom: &str, room: &Room<'_>) -> String {
    let [needs, used, total] = [short.needs, short.used, short.total].map(|n| amount(short.resource, n));
    let holders = names(&room.holders_of(short.resource));
    format!("waiting for {needs} {}{whom}: {used} of {total} are in use by {holders}", short.resource)
}

fn who(unit: &Unit<'_>) -> String {
    match unit.members.len() {
        1 => "the pod".to_owned(),
        _ => format!("the gang of {} pods", unit.at_least),
    }
}

/// What is needed at least: of an elastic gang, the pods it may begin with.
fn smallest(unit: &Unit<'_>) -> Demand {
    let mut demand = Demand::default();
    for pod in unit.members.iter().take(unit.at_least) {
        demand.add(&pod.demand);
    }
    demand
}

fn clash(members: &[&Waiting]) -> Option<i32> {
    let mut rest = members.iter();
    while let Some(pod) = rest.next() {
        if let Some(other) = rest.clone().find(|other| clashes(&pod.host_ports, &other.host_ports)) {
            let port = pod.host_ports.iter().find(|port| other.host_ports.iter().any(|p| p.conflicts(port)));
            return port.map(|port| port.port);
        }
    }
    None
}

fn names(keys: &[&PodKey]) -> String {
    let mut list: Vec<String> = keys.iter().take(NAMES).map(ToString::to_string).collect();
    match keys.len().saturating_sub(NAMES) {
        0 if list.is_empty() => list.push("others".to_owned()),
        0 => {}
        more => list.push(format!("{more} more")),
    }
    list.join(", ")
}

fn amount(resource: &str, millis: i128) -> String {
    match resource {
        "cpu" => format_millis(millis),
        "memory" | "ephemeral-storage" => format_bytes(units(millis)),
        _ => units(millis).to_string(),
    }
}
