//! What of a pod's volumes can be seen to be wrong before anything is made.

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use super::kind;
use crate::sources::containers_by_field;

/// Kinds of volumes that can be made here.
const KNOWN: [&str; 7] =
    ["configMap", "downwardAPI", "emptyDir", "hostPath", "persistentVolumeClaim", "projected", "secret"];

/// Fields and what is wrong with them.
pub fn check(pod: &Pod) -> Vec<(String, String)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let volumes: Vec<&Volume> = spec.volumes.iter().flatten().collect();
    let foreign = volumes.iter().enumerate().filter_map(|(index, volume)| {
        let message = refused(volume)?;
        Some((format!("spec.volumes[{index}]"), message))
    });
    let unknown =
        containers_by_field(spec).flat_map(|(field, container)| unknown_mounts(container, &volumes, &field));
    foreign.chain(unknown).collect()
}

/// Why a volume cannot be made here, if its kind is the reason.
pub(super) fn refused(volume: &Volume) -> Option<String> {
    // A volume without any source is an emptyDir, as the API server would have it.
    let kind = kind(volume).filter(|kind| !KNOWN.contains(&kind.as_str()))?;
    Some(format!("{kind} volumes cannot be mounted on one machine; use hostPath or a claim"))
}

fn unknown_mounts(container: &Container, volumes: &[&Volume], field: &str) -> Vec<(String, String)> {
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    let unknown = mounts.filter(|(_, mount)| volumes.iter().all(|volume| volume.name != mount.name));
    unknown
        .map(|(index, mount)| {
            let message = format!("there is no volume {:?}: add it to spec.volumes", mount.name);
            (format!("{field}.volumeMounts[{index}].name"), message)
        })
        .collect()
}
