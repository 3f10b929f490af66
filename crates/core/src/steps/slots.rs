//! Which pod is in which slot.

use std::collections::HashMap;

use crate::job::{JobView, Slot};
use crate::pod::PodView;
use crate::seen::Seen;

/// The pods of a job by slot. Found by name: names are a function of the slot, labels may have been changed.
pub(crate) struct Slots<'a> {
    job: &'a JobView,
    pods: Vec<Option<&'a PodView>>,
    strays: Vec<&'a PodView>,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(seen: &Seen<'a>) -> Self {
        let mut by_name: HashMap<&str, &'a PodView> = seen.pods.iter().map(|pod| (&*pod.name, pod)).collect();
        let job = seen.job;
        let pods = job.slots().map(|slot| by_name.remove(slot.child_name(job).as_str())).collect();
        let mut strays: Vec<_> = by_name.into_values().collect();
        strays.sort_by(|a, b| a.name.cmp(&b.name));
        Self { job, pods, strays }
    }

    /// The pod in a slot.
    pub(crate) fn pod(&self, slot: Slot<'_>) -> Option<&'a PodView> {
        let ordinal = usize::try_from(self.job.ordinal(slot)).ok()?;
        self.pods.get(ordinal).copied().flatten()
    }

    /// Pods that no slot asks for, by name.
    pub(crate) fn strays(&self) -> &[&'a PodView] {
        &self.strays
    }
}
