//! Whom a pod starts with.

use k8s_openapi::api::core::v1::Pod;

/// How many pods must be placed together. On every pod of the first round of an attempt.
const GANG_SIZE: &str = "trainyard.dev/gang-size";
/// Which attempt of the whole job a pod belongs to. Absent means 0.
const ATTEMPT: &str = "trainyard.dev/attempt";
/// How often one replica was replaced within the attempt. Absent means 0.
const INCARNATION: &str = "trainyard.dev/incarnation";

/// Pods that start together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gang {
    /// The same for all of them: who controls them, and which attempt it is.
    pub id: String,
    /// How many there must be before the first starts. A pod that replaces another joins what runs: 0, it waits for
    /// nobody.
    pub size: u32,
}

impl Gang {
    /// The gang of a pod; none for a pod that says nothing about one, or that nobody controls.
    pub fn of(pod: &Pod) -> Option<Self> {
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        let attempt = number(pod, ATTEMPT).unwrap_or_default();
        let replaces = number(pod, INCARNATION).filter(|n| *n > 0).map(|_| 0);
        let size = number(pod, GANG_SIZE).or(replaces)?;
        Some(Self { id: format!("{}/{attempt}", owner.uid), size })
    }
}

/// Operators write these as annotations; a label of the same name is as good.
fn number(pod: &Pod, key: &str) -> Option<u32> {
    let maps = [&pod.metadata.annotations, &pod.metadata.labels];
    maps.into_iter().flatten().find_map(|map| map.get(key))?.parse().ok()
}
