//! What ran, when and how often: the facts that promises about restarts are checked against.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::script::PodInfo;

/// One run of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its pod.
    pub pod: PodInfo,
    /// Its name.
    pub container: String,
    /// True for the pod's first container: the one whose runs are the replica's.
    pub main: bool,
    /// How many runs it had before in the same pod.
    pub restarts: u32,
    /// When it started.
    pub started: Timestamp,
    /// When and how it ended, if it did.
    pub ended: Option<(Timestamp, i32)>,
    /// It ended by itself, and not because somebody wanted its pod to end.
    pub own: bool,
    /// Its environment, as far as it was given as plain text.
    pub env: BTreeMap<String, String>,
}

/// Every run there was. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct History {
    runs: Arc<Mutex<Vec<Run>>>,
    refused: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, run: Run) {
        self.lock().push(run);
    }

    pub(crate) fn end(&self, uid: &str, container: &str, ended: (Timestamp, i32), own: bool) {
        let mut runs = self.lock();
        let open = |run: &&mut Run| run.pod.uid == uid && run.container == container && run.ended.is_none();
        if let Some(run) = runs.iter_mut().rev().find(open) {
            (run.ended, run.own) = (Some(ended), own);
        }
    }

    pub(crate) fn refuse(&self, pod: &PodInfo) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(pod.name.clone()).or_default() += 1;
    }

    /// How often the node refused pods of a name.
    pub fn refused(&self) -> BTreeMap<String, usize> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All runs, in the order of their starts.
    pub fn runs(&self) -> Vec<Run> {
        self.lock().clone()
    }

    /// Runs of replicas: of first containers, without what prepares or accompanies them.
    pub fn replica_runs(&self) -> Vec<Run> {
        self.runs().into_iter().filter(|run| run.main).collect()
    }

    /// Runs of the replica whose pod has this name: of first containers, in place or anew.
    pub fn runs_of(&self, pod: &str) -> Vec<Run> {
        self.replica_runs().into_iter().filter(|run| run.pod.name == pod).collect()
    }

    /// How often the replica ran.
    pub fn count(&self, pod: &str) -> usize {
        self.runs_of(pod).len()
    }

    /// Runs of two different pods for one slot at the same time. Never empty only if something is badly wrong.
    pub fn overlaps(&self) -> Vec<(Run, Run)> {
        let runs = self.runs();
        let mut pairs = Vec::new();
        for (at, first) in runs.iter().enumerate() {
            for second in runs.iter().skip(at + 1) {
                let same_slot = (&first.pod.namespace, &first.pod.name)
                    == (&second.pod.namespace, &second.pod.name)
                    && first.container == second.container;
                let over = first.ended.is_some_and(|(until, _)| until <= second.started);
                if same_slot && !over {
                    pairs.push((first.clone(), second.clone()));
                }
            }
        }
        pairs
    }

    /// Runs of one job that belong to different attempts and overlap in time.
    pub fn mixed_attempts(&self) -> Vec<(Run, Run)> {
        let runs = self.runs();
        let over = |run: &Run, by: Timestamp| run.ended.is_some_and(|(until, _)| until <= by);
        let mut pairs = Vec::new();
        for old in &runs {
            let same_job = |new: &&Run| new.pod.job == old.pod.job && new.pod.attempt > old.pod.attempt;
            let beside = |new: &&Run| !over(old, new.started) && !over(new, old.started);
            pairs.extend(runs.iter().filter(same_job).filter(beside).map(|new| (old.clone(), new.clone())));
        }
        pairs
    }
}
