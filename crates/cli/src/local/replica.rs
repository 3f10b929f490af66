//! One replica, as people want to see it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use trainyard_api::labels;

/// What a replica is doing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replica {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) job: Option<String>,
    /// `worker-0`.
    pub(crate) label: String,
    /// One word.
    pub(crate) state: String,
    /// Why it is not running, if it should be.
    pub(crate) why: Option<String>,
    /// When its training container started.
    pub(crate) since: Option<Timestamp>,
    pub(crate) restarts: i32,
    pub(crate) over: bool,
    /// The containers that have run, each with the number of its newest run.
    pub(crate) runs: Vec<(String, u32)>,
    /// The container whose end counts.
    pub(crate) main: String,
    /// Exit code and time of the first container that failed.
    pub(crate) failure: Option<(Timestamp, i32)>,
}

impl Replica {
    /// In the order of people: by job, then by role, then by number.
    pub(crate) fn order(&self) -> (&str, Option<&str>, &str, u32) {
        let (role, index) = self.label.rsplit_once('-').unwrap_or((&self.label, ""));
        (&self.namespace, self.job.as_deref(), role, index.parse().unwrap_or(0))
    }

    pub(crate) fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
        let name = meta.name.clone().unwrap_or_default();
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let status = pod.status.clone().unwrap_or_default();
        let mains = status.container_statuses.unwrap_or_default();
        let inits = status.init_container_statuses.unwrap_or_default();
        let phase = status.phase.unwrap_or_else(|| "Pending".into());
        let spec = pod.spec.as_ref();
        let first = spec.and_then(|spec| spec.containers.first()).map(|c| c.name.clone()).unwrap_or_default();
        let waiting = waiting(&mains).or_else(|| waiting(&inits));
        let conditions = status.conditions.unwrap_or_default();
        let unplaced = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let ending = meta.deletion_timestamp.is_some();
        let over = matches!(phase.as_str(), "Succeeded" | "Failed");
        let restarts = mains.iter().map(|status| status.restart_count).sum();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            job: owner.map(|owner| owner.name.clone()),
            label: label(labels::REPLICA_TYPE)
                .zip(label(labels::REPLICA_INDEX))
                .map_or(name, |(role, index)| format!("{role}-{index}")),
            state: match (&waiting, ending, over) {
                (_, true, false) => "Stopping".into(),
                (Some((reason, _)), _, false) => reason.clone(),
                _ => phase,
            },
            why: if over {
                status.message.or_else(|| inits.iter().chain(&mains).find_map(how_it_failed))
            } else {
                unplaced.and_then(|c| c.message.clone()).or(waiting.and_then(|w| w.1))
            },
            since: mains
                .iter()
                .find_map(|s| s.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|t| t.0)),
            restarts,
            over,
            runs: inits.iter().chain(&mains).filter_map(newest_run).collect(),
            main: mains.first().map_or(first, |status| status.name.clone()),
            failure: inits.iter().chain(&mains).filter_map(failure).min(),
        }
    }
}

fn waiting(statuses: &[ContainerStatus]) -> Option<(String, Option<String>)> {
    statuses.iter().find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().filter(|reason| reason != "ContainerCreating")?;
        Some((reason, waiting.message.clone()))
    })
}

/// Exit code, and what is known beyond it: a memory limit, a program that could not be started.
fn how_it_failed(status: &ContainerStatus) -> Option<String> {
    let end = status.state.as_ref()?.terminated.as_ref().filter(|end| end.exit_code != 0)?;
    let reason = end.reason.as_deref().filter(|reason| *reason != "Error");
    let reason = reason.map(|reason| format!("{reason}, ")).unwrap_or_default();
    let message = end.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("{reason}exit code {}{message}", end.exit_code))
}

/// A container that has never run has no identity yet.
fn newest_run(status: &ContainerStatus) -> Option<(String, u32)> {
    status.container_id.as_ref()?;
    Some((status.name.clone(), u32::try_from(status.restart_count).ok()?))
}

fn failure(status: &ContainerStatus) -> Option<(Timestamp, i32)> {
    let of = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        let end = state.as_ref()?.terminated.as_ref()?;
        (end.exit_code != 0)
            .then(|| (end.finished_at.as_ref().map_or(Timestamp::MAX, |t| t.0), end.exit_code))
    };
    of(&status.state).or_else(|| of(&status.last_state))
}
