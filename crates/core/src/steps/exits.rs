//! Telling of containers that ended: one event for all whose end is acted upon in a plan.

use trainyard_api::reasons::event;

use crate::plan::Draft;
use crate::pod::PodView;
use crate::report::Notice;

/// Tells with which codes the training containers of these pods ended.
pub(crate) fn tell(draft: &mut Draft<'_>, pods: &[&PodView]) {
    let container = draft.framework.facts().container;
    let namespace = &draft.job().namespace;
    let exits: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some((&pod.name, pod.exit_code(container)?)))
        .map(|(name, code)| format!("Pod: {namespace}.{name} exited with code {code}"))
        .collect();
    if !exits.is_empty() {
        draft.tell(Notice::normal(event::EXITED_WITH_CODE, exits.join("; ")));
    }
}
