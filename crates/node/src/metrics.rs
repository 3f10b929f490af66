//! What containers use: processor time and memory, sampled now and then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::files::blocking;
use crate::runtime::Usage;
use crate::shared::{Running, Shared};

/// How often usage is measured when nobody asks.
const PERIOD: Duration = Duration::from_secs(10);

/// What one container uses.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerUsage {
    /// UID of its pod.
    pub uid: String,
    /// Namespace of its pod.
    pub namespace: String,
    /// Name of its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// Labels of its pod.
    pub labels: BTreeMap<String, String>,
    /// Processors in use, averaged since the sample before.
    pub cpus: f64,
    /// Bytes of memory.
    pub memory: u64,
}

/// Measures containers.
#[derive(Clone)]
pub struct NodeMetrics {
    shared: Arc<Shared>,
    last: Arc<Mutex<Samples>>,
}

#[derive(Default)]
struct Samples {
    at: Option<Instant>,
    usage: BTreeMap<PathBuf, (Instant, Usage)>,
    shown: Vec<ContainerUsage>,
}

impl NodeMetrics {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, last: Arc::default() }
    }

    /// Samples until `shutdown`, so that an answer never has to wait for the second of two samples.
    pub(crate) async fn sample(&self, shutdown: CancellationToken) {
        let mut tick = tokio::time::interval(PERIOD);
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => {}
                _ = tick.tick() => drop(self.measure(PERIOD / 2).await),
            }
        }
    }

    /// As [`Self::usage`], on a thread that may block.
    pub async fn measure(&self, fresh: Duration) -> Vec<ContainerUsage> {
        let own = self.clone();
        blocking(move || own.usage(fresh)).await
    }

    /// What every running container uses. A sample older than `fresh` is taken anew.
    pub fn usage(&self, fresh: Duration) -> Vec<ContainerUsage> {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_some_and(|at| now.duration_since(at) < fresh) {
            return last.shown.clone();
        }
        let (runs, dirs) = self.running();
        let mut next = Samples { at: Some(now), ..Samples::default() };
        for (run, (dir, usage)) in runs.into_iter().zip(dirs.iter().zip(self.shared.runtime.usage(&dirs))) {
            let Some(usage) = usage else { continue };
            let cpus = last.usage.get(dir).map_or(0.0, |(then, before)| {
                let spent = usage.cpu.saturating_sub(before.cpu).as_secs_f64();
                spent / now.duration_since(*then).as_secs_f64().max(0.001)
            });
            next.shown.push(ContainerUsage { cpus, memory: usage.memory, ..run });
            next.usage.insert(dir.clone(), (now, usage));
        }
        *last = next;
        last.shown.clone()
    }

    fn running(&self) -> (Vec<ContainerUsage>, Vec<PathBuf>) {
        let running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = |run: &Running| ContainerUsage {
            uid: run.uid.clone(),
            namespace: run.namespace.clone(),
            pod: run.pod.clone(),
            container: run.container.clone(),
            labels: run.labels.clone(),
            cpus: 0.0,
            memory: 0,
        };
        running.iter().map(|(dir, run)| (usage(run), dir.clone())).unzip()
    }
}
