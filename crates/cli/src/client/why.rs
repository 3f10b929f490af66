//! Why a job is as it is: what the planner says, what its pods say, and what nobody does although it is due.

use serde_json::Value;
use trainyard_api::reasons::suffix;
use trainyard_core::Action;
use trainyard_core::conditions::types;
use trainyard_operator::{Kin, Look, look, read_pod, read_service};

use super::cluster::Cluster;
use super::fields::{condition, is_over, label, name, text};
use super::pages::{Listed, Pages};
use super::resource::Resource;
use super::target::Job;
use super::time::now;
use super::trouble::{self, Trouble};

/// How many actions are named before they are counted.
const NAMED: usize = 3;

/// What belongs to a job, as far as it says why the job is as it is.
#[derive(Default)]
pub(crate) struct Belongings {
    pub(crate) kin: Kin,
    /// Of its pods.
    pub(crate) troubles: Vec<Trouble>,
}

/// A job and what is to be said of it.
pub(crate) struct Family {
    pub(crate) job: Value,
    troubles: Vec<Trouble>,
    pub(crate) look: Look,
}

impl Family {
    /// Looks at a job and what belongs to it.
    pub(crate) fn new(cluster: &Cluster, job: &Job, belongings: Belongings) -> Self {
        let Belongings { kin, troubles } = belongings;
        let look = look(&cluster.catalog, job.kind, &job.object, kin, now());
        Self { job: job.object.clone(), troubles, look }
    }

    /// Reads a job's children and looks at them with it. Each pod is shown to `see`.
    pub(crate) async fn read(
        cluster: &Cluster,
        job: &Job,
        mut see: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let selector = format!("{}={}", trainyard_api::labels::JOB_NAME, job.name());
        let of = |resource| Listed { resource, namespace: Some(job.namespace()), selector: &selector };
        let mut belongings = Belongings::default();
        let (pods, services) = (Resource::pods(), Resource::core("services", "Service"));
        let (mut pods, mut services) = (Pages::of(cluster, of(&pods)), Pages::of(cluster, of(&services)));
        while let Some(page) = pods.next().await? {
            for json in page {
                let read = read_pod(&cluster.catalog, json.get());
                let own = read.filter(|(controller, _)| &*controller.uid == job.uid());
                if let Some((_, view)) = own {
                    see(json.get())?;
                    belongings.kin.pods.push(view);
                    belongings.troubles.extend(Trouble::read(json.get()));
                }
            }
        }
        while let Some(page) = services.next().await? {
            let read = page.iter().filter_map(|json| read_service(&cluster.catalog, json.get()));
            let own = read.filter(|(controller, _)| &*controller.uid == job.uid());
            belongings.kin.services.extend(own.map(|(_, view)| view));
        }
        Ok(Self::new(cluster, job, belongings))
    }

    /// The reasons, the most telling first; none for a job with which all is well.
    pub(crate) fn why(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for type_ in ["Failed", "InvalidSpec", "Restarting", "Suspended"] {
            let holds = condition(&self.job, type_);
            reasons
                .extend(holds.map(|c| text(c, "/message").to_owned()).filter(|message| !message.is_empty()));
        }
        if is_over(&self.job) {
            return reasons;
        }
        let held = self.held();
        reasons.extend(held.map(str::to_owned));
        reasons.extend(trouble::grouped(self.troubles.iter().cloned()));
        for line in &self.look.plan.report.lines {
            let said = format!("{}: {}", line.step, line.text);
            if !reasons.iter().any(|known| known == &line.text) {
                reasons.push(said);
            }
        }
        // Who says what it waits for is there, and does what can be done.
        if held.is_none() {
            reasons.extend(self.due());
        }
        reasons
    }

    /// What the operator says that pods wait for which do not exist. Those that do exist say it themselves.
    fn held(&self) -> Option<&str> {
        let waiting = condition(&self.job, types::WAITING)?;
        let of_pods = [suffix::UNSCHEDULABLE, suffix::IMAGE, suffix::CONFIG];
        let told_by_pods = of_pods.iter().any(|suffix| text(waiting, "/reason").ends_with(suffix));
        (!told_by_pods).then(|| text(waiting, "/message")).filter(|message| !message.is_empty())
    }

    /// What an operator would do now. It takes a moment; if it stays, no operator is there.
    fn due(&self) -> Option<String> {
        let named = |action: &Action| match action {
            Action::Create(child) => format!("create {} {}", child.what.kind, child.name),
            Action::Delete { what, name, .. } => format!("delete {} {name}", what.kind),
            Action::Amend { what, .. } => format!("amend a {}", what.kind.to_lowercase()),
            Action::Release { name, .. } => format!("let Pod {name} go"),
            Action::DeleteJob { .. } => "delete the job".to_owned(),
        };
        let actions = &self.look.plan.actions;
        let first: Vec<String> = actions.iter().take(NAMED).map(named).collect();
        let more = actions.len().saturating_sub(NAMED);
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!actions.is_empty()).then(|| {
            let what = first.join(", ");
            format!("waiting for an operator (does one run?) to {what}{rest}")
        })
    }

    /// Restarts so far: those written down, and those the kubelet shows on the pods that are there.
    pub(crate) fn restarts(&self) -> u32 {
        let record = self.look.decoded.as_ref().map_or(0, |decoded| decoded.job.record.restarts);
        self.look.pods.iter().fold(record, |sum, pod| sum.saturating_add(pod.restarts_in_place()))
    }
}

/// `worker-0`: the replica a pod is of; its name for a pod that is none.
pub(crate) fn replica(pod: &Value) -> String {
    let (role, index) =
        (label(pod, trainyard_api::labels::REPLICA_TYPE), label(pod, trainyard_api::labels::REPLICA_INDEX));
    if role.is_empty() { name(pod).to_owned() } else { format!("{role}-{index}") }
}
