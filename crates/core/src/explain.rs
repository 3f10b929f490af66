//! What a manifest would become, without a cluster: the plan for a job that has just been created.

use jiff::Timestamp;
use serde_json::Value;

use crate::action::{Action, Child, Resource};
use crate::decode::{Catalog, decode};
use crate::extra::ExtraView;
use crate::field_error::FieldError;
use crate::kind::Kind;
use crate::plan::plan;
use crate::seen::{Addressing, Options, PortSpace, Priorities, Seen};

/// What a manifest would become.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Everything that is wrong with it. Then nothing is created.
    pub errors: Vec<FieldError>,
    /// The objects, as they would be sent.
    pub children: Vec<Child>,
    /// What each step of the plan said.
    pub notes: Vec<String>,
}

/// Plans a manifest as if it had just been created.
pub fn explain(catalog: &Catalog, kind: &'static Kind, manifest: &Value, options: &Options) -> Explanation {
    let mut decoded = match decode(catalog, kind, manifest) {
        Ok(decoded) => decoded,
        Err(bad) => {
            return Explanation { errors: vec![bad.error], ..Explanation::default() };
        }
    };
    // A new job is refused for an option without a meaning, too.
    let errors = [decoded.errors.as_slice(), &decoded.job.ignored].concat();
    if !errors.is_empty() {
        return Explanation { errors, ..Explanation::default() };
    }
    if decoded.job.uid.is_empty() {
        decoded.job.uid = "(the job's uid)".into();
    }
    // A machine whose ports are all free.
    let space = PortSpace { first: 20_000, last: 29_999, taken: Vec::new() };
    let shared = options.addressing == Addressing::HostPorts || decoded.job.asks_for_host_ports();
    let ports = shared.then_some(&space);
    let mut extras: Vec<ExtraView> = Vec::new();
    let mut children: Vec<Child> = Vec::new();
    // Pods come when all that they need is there: so the plan is made again until it is.
    loop {
        let seen = Seen {
            job: &decoded.job,
            pods: &[],
            services: &[],
            extras: &extras,
            ports,
            failures: &[],
            tail: None,
            priorities: &Priorities::default(),
            options,
            now: Timestamp::UNIX_EPOCH,
        };
        let plan = plan(decoded.framework, &seen);
        let new = plan.actions.into_iter().filter_map(|action| match action {
            Action::Create(child) => Some(child),
            Action::Delete { .. }
            | Action::Amend { .. }
            | Action::Release { .. }
            | Action::DeleteJob { .. } => None,
        });
        let (first, last): (Vec<Child>, Vec<Child>) =
            new.partition(|child| ![&Resource::POD, &Resource::SERVICE].contains(&child.what));
        extras.extend(first.iter().map(ExtraView::granted));
        let done = first.is_empty();
        children.extend(first);
        if done {
            let notes =
                plan.report.lines.iter().map(|line| format!("{}: {}", line.step, line.text)).collect();
            children.extend(last);
            return Explanation { errors: Vec::new(), children, notes };
        }
    }
}
