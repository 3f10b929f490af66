//! One headless service per replica, so that every name in use today resolves.

use std::collections::BTreeSet;

use crate::action::Resource;
use crate::action::{Action, Why};
use crate::plan::{Draft, Flow};
use crate::seen::Addressing;
use crate::steps::{build, replicas};

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    if draft.seen.options.addressing != Addressing::Service || !draft.framework.facts().services {
        return Flow::Go;
    }
    let job = draft.job();
    let existing: BTreeSet<&str> = draft.seen.services.iter().map(|service| &*service.name).collect();
    let mut wanted = BTreeSet::new();
    let held = draft.hold.is_some();
    for slot in job.slots() {
        let name = slot.child_name(job);
        if !held && !existing.contains(name.as_str()) && replicas::may_try(draft, &Resource::SERVICE, &name) {
            let moves = draft.record.ports.is_some() && slot.role.on_host_network();
            let service = build::service(draft.framework.facts(), job, slot, moves);
            draft.act(Action::Create(service));
        }
        wanted.insert(name);
    }
    for service in draft.seen.services.iter().filter(|service| !wanted.contains(&*service.name)) {
        draft.delete_service(service, Why::ScaledDown);
    }
    Flow::Go
}
