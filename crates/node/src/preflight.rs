//! What of a job could never run on this machine, found before any of it is created.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use nix::unistd::geteuid;

use crate::entrypoints::Entrypoints;
use crate::inventory::Inventory;
use crate::pod::limits_not_kept;
use crate::schedule::{Decision, Waiting, schedule};
use crate::{unsupported, users, volumes};

/// What is to be said about pods before they are created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// Why they could not run here.
    pub problems: Vec<PodProblem>,
    /// What they ask for and do not get here: one line each, none twice.
    pub notes: Vec<String>,
}

/// Why pods could not run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    /// The pod, by its place in the list, and the field of it; absent if it is all of them together.
    pub place: Option<(usize, String)>,
    /// What is wrong and what to do.
    pub message: String,
}

/// Looks at the pods of one job, which start together.
pub fn preflight(pods: &[Pod], inventory: &Inventory, entrypoints: &Entrypoints) -> Preflight {
    let own = |(number, pod)| own(number, pod, entrypoints);
    let mut problems: Vec<PodProblem> = pods.iter().enumerate().flat_map(own).collect();
    let waiting: Vec<Waiting> = pods
        .iter()
        .enumerate()
        .map(|(number, pod)| Waiting::of(&as_created(pod, number), inventory))
        .collect();
    let decisions = schedule(&waiting, &[], inventory, Timestamp::UNIX_EPOCH);
    let never = decisions.into_iter().filter_map(|decision| match decision {
        Decision::Wait { message, never: true, .. } => Some(message),
        Decision::Wait { .. } | Decision::Place { .. } => None,
    });
    problems.extend(sorted(never.collect()).into_iter().map(|message| PodProblem {
        place: None,
        message: message.trim_start_matches("0/1 nodes are available: ").to_owned(),
    }));
    let notes = |pod| unsupported::not_honoured(pod).into_iter().chain(limits_not_kept(pod));
    Preflight { problems, notes: sorted(pods.iter().flat_map(notes).collect()) }
}

fn own(number: usize, pod: &Pod, entrypoints: &Entrypoints) -> Vec<PodProblem> {
    let commands = unsupported::cannot_start(pod, entrypoints)
        .into_iter()
        .map(|problem| (problem.field, problem.message));
    let users = users::root_refusals(pod, geteuid().is_root());
    let all = commands.chain(volumes::check(pod)).chain(users);
    all.map(|(field, message)| PodProblem { place: Some((number, field)), message }).collect()
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
