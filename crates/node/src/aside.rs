//! Containers of pods that nobody knows: deleted, or lost.

use std::io;

use crate::runtime::Instance;
use crate::shared::Shared;

/// Which of these unknown pods are to be ended. After objects were lost, a pod without an object may be one that should run.
/// Nobody can tell, so those that run are set aside for good. For threads that may block.
pub(crate) fn to_be_ended(shared: &Shared, strays: Vec<String>) -> Vec<String> {
    if let Err(error) = set_aside(shared, &strays) {
        tracing::warn!(%error, "cannot note whose containers are set aside: all that are unknown go on");
        return Vec::new();
    }
    strays.into_iter().filter(|uid| !shared.disk.is_aside(uid) || !runs(shared, uid)).collect()
}

fn set_aside(shared: &Shared, strays: &[String]) -> io::Result<()> {
    let mark = &shared.options.lost_objects;
    if !mark.try_exists()? {
        return Ok(());
    }
    for uid in strays.iter().filter(|uid| runs(shared, uid)) {
        shared.disk.set_aside(uid)?;
        let owner = shared.disk.owner(uid);
        let (namespace, name) = owner.map(|owner| (owner.namespace, owner.name)).unwrap_or_default();
        tracing::warn!(
            namespace, name, uid, dir = %shared.disk.pod(uid).display(),
            "the object of this pod was lost: its containers go on, and only `trainyard down` ends them"
        );
    }
    std::fs::remove_file(mark)
}

/// Whether a container of a pod has a process, as far as anybody can tell.
fn runs(shared: &Shared, uid: &str) -> bool {
    let over = |look| matches!(look, Ok(Instance::Absent | Instance::Ended(_)));
    let Ok(runs) = shared.disk.newest_runs(uid) else { return true };
    runs.iter().any(|dir| !over(shared.runtime.look(dir)))
}
