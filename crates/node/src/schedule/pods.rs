//! From pods to what the scheduler looks at, and from its decision to what each container gets.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Gang, Placed, PodKey, Waiting};
use crate::demand::{Demand, GPU, is_sidecar, of_container};
use crate::inventory::Inventory;

/// On a placed pod: the ids of the GPUs it was given, separated by commas.
pub const GPUS: &str = "trainyard.dev/gpus";

/// A port of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Its number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The address it is bound to; empty for all of them.
    pub ip: String,
}

impl HostPort {
    /// Both cannot be bound at the same time.
    pub fn conflicts(&self, other: &Self) -> bool {
        let same_ip = self.ip == other.ip || self.ip.is_empty() || other.ip.is_empty();
        same_ip && self.port == other.port && self.protocol == other.protocol
    }
}

/// All pods of the API as the scheduler wants them. A pod that is going away without ever having been placed, or that
/// has scheduling gates, is in neither list. Those in `assumed` are being placed with these GPUs, by UID.
pub(crate) fn split<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    assumed: &BTreeMap<String, Vec<String>>,
    inventory: &Inventory,
) -> (Vec<Waiting>, Vec<Placed>) {
    let (mut waiting, mut placed) = (Vec::new(), Vec::new());
    for pod in pods {
        let spec = pod.spec.as_ref();
        let bound = spec.and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
        let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|list| !list.is_empty());
        let assumed = pod.metadata.uid.as_ref().and_then(|uid| assumed.get(uid));
        if bound {
            placed.push(Placed::of(pod));
        } else if let Some(gpus) = assumed {
            placed.push(Placed { gpus: gpus.clone(), ..Placed::of(pod) });
        } else if !gated && !has_ended(pod) && pod.metadata.deletion_timestamp.is_none() {
            waiting.push(Waiting::of(pod, inventory));
        }
    }
    (waiting, placed)
}

impl PodKey {
    /// The key of a pod.
    pub fn of(pod: &Pod) -> Self {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let meta = &pod.metadata;
        Self { namespace: text(&meta.namespace), name: text(&meta.name), uid: text(&meta.uid) }
    }
}

impl Waiting {
    /// A pod that has not been placed.
    pub fn of(pod: &Pod, inventory: &Inventory) -> Self {
        let (demand, unreadable) = match Demand::of(pod) {
            Ok(demand) => (demand, None),
            Err(error) => (Demand::default(), Some(error.to_string())),
        };
        let created = pod.metadata.creation_timestamp.as_ref();
        Self {
            key: PodKey::of(pod),
            created_at: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            demand,
            host_ports: host_ports(pod),
            gang: Gang::of(pod),
            problem: unreadable.or_else(|| elsewhere(pod, inventory)),
        }
    }
}

impl Placed {
    /// A pod that has been placed, ended or not.
    pub fn of(pod: &Pod) -> Self {
        let (key, gang) = (PodKey::of(pod), Gang::of(pod));
        if has_ended(pod) {
            return Self {
                key,
                gang,
                demand: Demand::default(),
                host_ports: BTreeSet::new(),
                gpus: Vec::new(),
            };
        }
        // What was placed was readable then.
        let demand = Demand::of(pod).unwrap_or_default();
        Self { key, gang, demand, host_ports: host_ports(pod), gpus: gpus_of_pod(pod) }
    }
}

/// Whether nothing of the pod will ever run again.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// There is one node: a selector that does not match it matches none.
fn elsewhere(pod: &Pod, inventory: &Inventory) -> Option<String> {
    let selector = pod.spec.as_ref()?.node_selector.as_ref()?;
    let labels = inventory.labels();
    let (key, wanted) = selector.iter().find(|(key, value)| labels.get(*key) != Some(*value))?;
    let has = labels.get(key).map_or_else(|| "no such label".to_owned(), |value| format!("{key}={value}"));
    Some(format!("nodeSelector wants {key}={wanted}, this machine has {has}"))
}

fn host_ports(pod: &Pod) -> BTreeSet<HostPort> {
    let Some(spec) = &pod.spec else {
        return BTreeSet::new();
    };
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ports = sidecars.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let ip = port.host_ip.clone().filter(|ip| ip != "0.0.0.0" && ip != "::").unwrap_or_default();
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            Some(HostPort { port: number, protocol, ip })
        })
        .collect()
}

/// The GPUs a pod was given, by id.
pub(crate) fn gpus_of_pod(pod: &Pod) -> Vec<String> {
    let list = pod.metadata.annotations.as_ref().and_then(|map| map.get(GPUS));
    let ids = list.into_iter().flat_map(|list| list.split(',')).map(str::trim);
    ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// The part of the pod's GPUs that one of its containers gets. Sidecars and containers, which run at the same time,
/// get one part after the other; an init container gets what comes after the sidecars started before it.
pub fn gpus_of_container(pod: &Pod, container: &str) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let mut from = 0_usize;
    let init = spec.init_containers.iter().flatten().map(|it| (it, is_sidecar(it)));
    for (candidate, keeps) in init.chain(spec.containers.iter().map(|it| (it, true))) {
        let count = gpu_count(candidate);
        if candidate.name == container {
            return gpus_of_pod(pod).into_iter().skip(from).take(count).collect();
        }
        if keeps {
            from = from.saturating_add(count);
        }
    }
    Vec::new()
}

fn gpu_count(container: &Container) -> usize {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = limits.and_then(|limits| limits.get(GPU)).map(|quantity| quantity.0.as_str());
    match limit.map(crate::quantity::parse_units) {
        Some(Ok(count)) => usize::try_from(count).unwrap_or_default(),
        Some(Err(_)) => 0,
        None => of_container(container).map(|demand| demand.gpus()).unwrap_or_default(),
    }
}
