//! What is left of the machine.

use super::{HostPort, Placed, PodKey, Waiting};
use crate::demand::Demand;
use crate::inventory::Inventory;

/// What is left of the machine, and who has the rest.
#[derive(Clone, Debug)]
pub(super) struct Room<'a> {
    inventory: &'a Inventory,
    used: Demand,
    /// Lowest index first.
    free_gpus: Vec<&'a str>,
    holders: Vec<Holder<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Holder<'a> {
    key: &'a PodKey,
    demand: &'a Demand,
    ports: &'a std::collections::BTreeSet<HostPort>,
}

/// A resource there is not enough of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortage<'a> {
    pub(super) resource: &'a str,
    pub(super) needs: i128,
    pub(super) used: i128,
    pub(super) total: i128,
}

impl<'a> Room<'a> {
    /// The machine with these pods on it.
    pub(super) fn new(inventory: &'a Inventory, placed: impl IntoIterator<Item = &'a Placed>) -> Self {
        let mut gpus: Vec<_> = inventory.gpus.iter().collect();
        gpus.sort_by_key(|gpu| gpu.index);
        let free_gpus = gpus.into_iter().map(|gpu| gpu.id.as_str()).collect();
        let mut room = Self { inventory, used: Demand::default(), free_gpus, holders: Vec::new() };
        for pod in placed {
            room.free_gpus.retain(|id| !pod.gpus.iter().any(|held| held == id));
            room.used.add(&pod.demand);
            room.holders.push(Holder { key: &pod.key, demand: &pod.demand, ports: &pod.host_ports });
        }
        room
    }

    /// Places a pod that was chosen, and says which GPUs it gets.
    pub(super) fn place(&mut self, pod: &'a Waiting) -> Vec<String> {
        self.used.add(&pod.demand);
        self.holders.push(Holder { key: &pod.key, demand: &pod.demand, ports: &pod.host_ports });
        let count = pod.demand.gpus().min(self.free_gpus.len());
        self.free_gpus.drain(..count).map(str::to_owned).collect()
    }

    /// All of them if they fit together; else, for a gang that may begin with fewer, those that fit in their order.
    pub(super) fn choose<'p>(&self, members: &[&'p Waiting], at_least: usize) -> Option<Vec<&'p Waiting>> {
        let mut chosen: Vec<&'p Waiting> = Vec::with_capacity(members.len());
        let mut total = Demand::default();
        for pod in members {
            let mut with = total.clone();
            with.add(&pod.demand);
            let clash = chosen.iter().any(|other| clashes(&other.host_ports, &pod.host_ports));
            if !clash && self.taken_port(pod).is_none() && self.has(&with) {
                chosen.push(pod);
                total = with;
            } else if members.len() <= at_least {
                return None;
            }
        }
        (chosen.len() >= at_least).then_some(chosen)
    }

    fn has(&self, demand: &Demand) -> bool {
        self.shortages(demand).next().is_none() && demand.gpus() <= self.free_gpus.len()
    }

    /// What there is not enough of for this, in the order of names.
    pub(super) fn shortages<'d>(&self, demand: &'d Demand) -> impl Iterator<Item = Shortage<'d>> {
        demand.iter().filter_map(|(resource, needs)| {
            let total = self.inventory.millis(resource)?;
            let used = self.used.millis(resource);
            let lacks = needs.saturating_add(used) > total;
            lacks.then_some(Shortage { resource, needs, used, total })
        })
    }

    /// A port the pod wants that somebody has, and who.
    pub(super) fn taken_port<'p>(&self, pod: &'p Waiting) -> Option<(&'p HostPort, &'a PodKey)> {
        pod.host_ports.iter().find_map(|port| {
            let holder = self.holders.iter().find(|holder| holder.ports.iter().any(|p| p.conflicts(port)))?;
            Some((port, holder.key))
        })
    }

    /// Who has some of a resource.
    pub(super) fn holders_of(&self, resource: &str) -> Vec<&'a PodKey> {
        let holders = self.holders.iter().filter(|holder| holder.demand.millis(resource) > 0);
        holders.map(|holder| holder.key).collect()
    }
}

pub(super) fn clashes(
    one: &std::collections::BTreeSet<HostPort>,
    other: &std::collections::BTreeSet<HostPort>,
) -> bool {
    one.iter().any(|port| other.iter().any(|p| p.conflicts(port)))
}
