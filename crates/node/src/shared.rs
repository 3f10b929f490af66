//! What all workers of a node share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{Api, Client};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account;
use crate::disk::Disk;
use crate::env::ConfigError;
use crate::events::Events;
use crate::files::{self, FileWork, Lane};
use crate::options::Options;
use crate::pod::ADDRESS;
use crate::runtime::{Instance, Runtime, RuntimeError};
use crate::sources::NodeFacts;
use crate::users::{Tenant, Users};

/// Containers that are started at once.
const STARTS: usize = 8;
/// After a failure to end what is left of a pod; after more of them it doubles, up to this.
const RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// A container that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    /// Of its pod: whoever measures looks for pods by them.
    pub(crate) labels: BTreeMap<String, String>,
}

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) runtime: Runtime,
    pub(crate) disk: Disk,
    pub(crate) events: Events,
    /// True once all pods were seen.
    pub(crate) listed: watch::Sender<bool>,
    /// True while the machine takes no new pods.
    pub(crate) closed: watch::Sender<bool>,
    pub(crate) starts: Semaphore,
    /// Threads for file work.
    pub(crate) files: FileWork,
    /// The users of namespaces, where each has its own.
    users: Option<Arc<Users>>,
    /// What was begun beside everything else.
    tasks: TaskTracker,
    /// Cancelled when the node ends.
    over: CancellationToken,
    /// What runs, by the directory of the run: for those who measure.
    pub(crate) running: Mutex<BTreeMap<PathBuf, Running>>,
}

impl Shared {
    pub(crate) fn new(client: Client, options: Options, events: Events) -> Self {
        Self {
            client,
            runtime: Runtime::new(options.shim.clone(), options.clock.clone()),
            disk: Disk::new(&options.root),
            events,
            listed: watch::Sender::new(false),
            closed: watch::Sender::new(false),
            starts: Semaphore::new(STARTS),
            files: FileWork::new(),
            users: options.isolate.map(|range| Arc::new(Users::new(options.root.clone(), range))),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            running: Mutex::default(),
            options,
        }
    }

    /// Does something beside everything else, until the node ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        self.tasks.spawn(async move { over.run_until_cancelled(work).await });
    }

    /// Ends what was begun. Then nothing here talks to the API any more.
    pub(crate) async fn finish(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn facts(&self) -> NodeFacts {
        NodeFacts {
            host_ip: ADDRESS.into(),
            pod_ip: ADDRESS.into(),
            node_name: self.options.name.clone(),
            allocatable: self.options.inventory.capacity(),
        }
    }

    /// The user that the pod's namespace runs as, where each namespace has its own.
    pub(crate) async fn tenant(&self, pod: &Pod) -> Result<Option<Tenant>, ConfigError> {
        let Some(users) = self.users.clone() else { return Ok(None) };
        let name = pod.metadata.namespace.clone().unwrap_or_default();
        let failed = |why: String| ConfigError::new(format!("namespace {name:?} has no user yet: {why}"));
        let found = Api::<Namespace>::all(self.client.clone()).get_opt(&name).await;
        let found = found.map_err(|error| failed(error.to_string()))?;
        let uid = found.and_then(|namespace| namespace.metadata.uid);
        let uid = uid.ok_or_else(|| failed("it does not exist".to_owned()))?;
        let namespace = name.clone();
        files::blocking(move || users.tenant(&uid, &namespace)).await.map(Some).map_err(failed)
    }

    /// A pod as it is run here. It may have to try whether mounts are permitted: for threads that may block.
    pub(crate) fn trimmed<'a>(&self, pod: &'a Pod) -> Cow<'a, Pod> {
        account::trimmed(pod, || self.options.api.is_some() && self.runtime.can_mount().is_ok())
    }

    /// Ends whatever is left of a pod whose object is gone, and gives up its files but for the logs. What cannot be done
    /// now is tried until it can: nobody else would end these containers.
    pub(crate) async fn end_pod(self: &Arc<Self>, uid: &str, lane: &Lane) {
        let mut retry = RETRY;
        while let Err(error) = self.try_end_pod(uid, lane).await {
            tracing::warn!(uid, error, again_in = ?retry, "cannot end what is left of a pod that is gone");
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    async fn try_end_pod(self: &Arc<Self>, uid: &str, lane: &Lane) -> Result<(), String> {
        let (own, of) = (Arc::clone(self), uid.to_owned());
        let stopping = lane.own(move || own.stop_all(&of)).await;
        let mut trouble = Ok(());
        for (dir, stopped) in stopping.map_err(|error| error.to_string())? {
            let ended = match stopped {
                Ok(()) => self.runtime.ended(&dir).await.map(drop),
                Err(error) => Err(error),
            };
            trouble = trouble.and(ended.map_err(|error| error.to_string()));
        }
        trouble?;
        let (own, of) = (Arc::clone(self), uid.to_owned());
        let clearing = self.files.remove(move || own.disk.clear(&of, own.options.now()));
        clearing.await.map_err(|error| error.to_string())
    }

    /// Asks every run of a pod to end at once: those that have begun, and whether they could be asked.
    fn stop_all(&self, uid: &str) -> io::Result<Vec<(PathBuf, Result<(), RuntimeError>)>> {
        let stop = |dir: PathBuf| {
            let stopped = self.runtime.stop(&dir, Duration::ZERO);
            // A run that never began has no end to wait for.
            let begun = stopped.is_err() || !matches!(self.runtime.look(&dir), Ok(Instance::Absent));
            begun.then_some((dir, stopped))
        };
        Ok(self.disk.newest_runs(uid)?.into_iter().filter_map(stop).collect())
    }
}
