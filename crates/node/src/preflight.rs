//! What of a job could never run on this machine, found before any of it is created.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::inventory::Inventory;
use crate::pod::limits_not_kept;
use crate::schedule::{Decision, Waiting, schedule};
use crate::unsupported;

/// What is to be said about pods before they are created. One line each, none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// Why they could not run here.
    pub problems: Vec<String>,
    /// What they ask for and do not get here.
    pub notes: Vec<String>,
}

/// Looks at the pods of one job, which start together.
pub fn preflight(pods: &[Pod], inventory: &Inventory) -> Preflight {
    let mut problems: Vec<String> = pods
        .iter()
        .flat_map(|pod| unsupported::cannot_start(pod).into_iter().map(|problem| problem.to_string()))
        .collect();
    let waiting: Vec<Waiting> = pods
        .iter()
        .enumerate()
        .map(|(number, pod)| Waiting::of(&as_created(pod, number), inventory))
        .collect();
    let decisions = schedule(&waiting, &[], inventory, Timestamp::UNIX_EPOCH);
    problems.extend(decisions.into_iter().filter_map(|decision| match decision {
        Decision::Wait { message, never: true, .. } => Some(message),
        Decision::Wait { .. } | Decision::Place { .. } => None,
    }));
    let notes = |pod| unsupported::not_honoured(pod).into_iter().chain(limits_not_kept(pod));
    let notes = pods.iter().flat_map(notes).collect();
    Preflight { problems: sorted(problems), notes: sorted(notes) }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines.dedup();
    lines
}

/// The pod with what an API server and an owner would have given it.
fn as_created(pod: &Pod, number: usize) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.uid = Some(format!("preflight-{number}"));
    let owner =
        OwnerReference { controller: Some(true), uid: "preflight".into(), ..OwnerReference::default() };
    pod.metadata.owner_references = Some(vec![owner]);
    pod
}
