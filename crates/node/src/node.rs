//! The node: it watches pods, places them, and gives each that is its own to a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::aside;
use crate::events::{self, Events};
use crate::files::blocking;
use crate::leftovers::Leftovers;
use crate::logs::NodeLogs;
use crate::machine;
use crate::metrics::NodeMetrics;
use crate::options::Options;
use crate::placing::{Placing, Verdict};
use crate::pod::Worker;
use crate::schedule::has_ended;
use crate::shared::Shared;
use crate::streams::NodeStreams;
use crate::watch::{Seen, is_closed, pods};

/// Pods of one job are created one after the other; a moment's patience places them together.
const PATIENCE: Duration = Duration::from_millis(2);
/// However long decisions take, they are not put off for longer.
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// A pod whose worker crashed is taken up again after this long.
const AFTER_CRASH: Duration = Duration::from_secs(10);
/// What pods left that are gone is looked at this often.
const SWEEP: Duration = Duration::from_secs(60);

/// One machine as a node, ready to run.
pub struct Node {
    shared: Arc<Shared>,
    events: mpsc::Receiver<Event>,
    metrics: NodeMetrics,
}

impl Node {
    /// A node on this API server. It asks the machine what it permits; nothing else happens before [`Node::run`].
    pub fn new(client: Client, options: Options) -> Self {
        let (events, receiver) = Events::new(&options.name);
        let shared = Arc::new(Shared::new(client, options, events));
        let metrics = NodeMetrics::new(Arc::clone(&shared));
        Self { shared, events: receiver, metrics }
    }

    /// Reads the logs of this node's containers.
    pub fn logs(&self) -> NodeLogs {
        NodeLogs::new(Arc::clone(&self.shared))
    }

    /// Runs commands in this node's containers and reaches the ports of its pods.
    pub fn streams(&self) -> NodeStreams {
        NodeStreams::new(Arc::clone(&self.shared))
    }

    /// Measures what this node's containers use.
    pub fn metrics(&self) -> NodeMetrics {
        self.metrics.clone()
    }

    /// True once the node has seen all pods.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.shared.listed.subscribe()
    }

    /// Runs until `shutdown`. Containers go on: the next node on the same directory finds them again.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { shared, events, metrics } = self;
        let posting = tokio::spawn(events::post_all(shared.client.clone(), events));
        let registering = machine::register(shared.client.clone(), &shared.options, shutdown.clone());
        let mut manager = Manager::new(Arc::clone(&shared));
        tokio::join!(registering, manager.run(shutdown.clone()), metrics.sample(shutdown));
        manager.workers.shutdown().await;
        shared.finish().await;
        posting.abort();
        // Cut short on purpose.
        let _ = posting.await;
    }
}

/// Knows all pods.
struct Manager {
    shared: Arc<Shared>,
    pods: BTreeMap<String, Known>,
    /// UIDs of pods that cannot be read.
    odd: BTreeSet<String>,
    /// UIDs of the list that is being read, if one is.
    listing: Option<BTreeSet<String>>,
    listed: bool,
    placing: Placing,
    /// How long to wait for more before deciding.
    patience: Duration,
    workers: JoinSet<(String, bool)>,
    verdicts: mpsc::UnboundedReceiver<Verdict>,
    /// UIDs of pods that have a directory and are not known to be gone.
    found: mpsc::UnboundedReceiver<Vec<String>>,
    finding: mpsc::UnboundedSender<Vec<String>>,
    leftovers: Arc<Mutex<Leftovers>>,
}

struct Known {
    pod: Arc<Pod>,
    worker: Option<watch::Sender<Option<Arc<Pod>>>>,
    /// Its worker has written that it is over; the watch may not have brought that back yet.
    over: bool,
}

impl Manager {
    fn new(shared: Arc<Shared>) -> Self {
        let (placing, verdicts) = Placing::new(Arc::clone(&shared));
        let (finding, found) = mpsc::unbounded_channel();
        Self {
            shared,
            pods: BTreeMap::new(),
            odd: BTreeSet::new(),
            listing: None,
            listed: false,
            placing,
            patience: PATIENCE,
            workers: JoinSet::new(),
            verdicts,
            found,
            finding,
            leftovers: Arc::default(),
        }
    }

    async fn run(&mut self, shutdown: CancellationToken) {
        let mut seen = std::pin::pin!(pods(self.shared.client.clone()));
        let mut closed = is_closed(self.shared.client.clone(), &self.shared.options.name).boxed();
        let mut place_at: Option<Instant> = None;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let placing_due = async {
                match place_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(seen) = seen.next() => {
                    if self.take(seen) {
                        let soon = Instant::now() + self.patience;
                        // The first of several sets the time, so that a stream of them cannot put it off.
                        place_at = Some(place_at.map_or(soon, |at| at.min(soon)));
                    }
                }
                Some(closed) = closed.next() => {
                    if self.shared.closed.send_replace(closed) != closed && self.listed {
                        place_at = Some(Instant::now());
                    }
                }
                Some(verdict) = self.verdicts.recv() => {
                    self.placing.settle(verdict);
                    place_at = Some(Instant::now() + self.patience);
                }
                Some(uids) = self.found.recv() => self.end_strays(&uids),
                Some(ended) = self.workers.join_next(), if !self.workers.is_empty() => self.ended(ended),
                () = placing_due => place_at = self.place(),
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// True if it may change what can be placed.
    fn take(&mut self, seen: Seen) -> bool {
        match seen {
            Seen::Listing => self.listing = Some(BTreeSet::new()),
            Seen::There(pod) => {
                let Some(uid) = pod.metadata.uid.clone() else { return false };
                if let Some(listing) = &mut self.listing {
                    listing.insert(uid.clone());
                }
                let matters = self.there(uid, Arc::new(*pod));
                return matters && self.listed;
            }
            Seen::Odd(odd) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(odd.uid.clone());
                }
                // Once; its own echo is no news.
                if self.odd.insert(odd.uid.clone()) {
                    self.placing.refuse(odd);
                }
                return false;
            }
            Seen::Listed => {
                let listing = self.listing.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.pods.keys().filter(|uid| !listing.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.gone(&uid);
                }
                self.find_pods();
                self.listed = true;
                self.shared.listed.send_replace(true);
            }
            Seen::Gone(uid) => self.gone(&uid),
        }
        // Before the first list is complete, a gang may look larger or smaller than it is.
        self.listed
    }

    /// True if it may change what can be placed.
    fn there(&mut self, uid: String, pod: Arc<Pod>) -> bool {
        let before = self.pods.get(&uid).map(|known| Arc::clone(&known.pod));
        let known = self.pods.entry(uid.clone()).or_insert_with(|| Known {
            pod: Arc::clone(&pod),
            worker: None,
            over: false,
        });
        known.pod = Arc::clone(&pod);
        match &known.worker {
            Some(worker) => {
                worker.send_replace(Some(Arc::clone(&pod)));
            }
            None => self.work(&uid),
        }
        before.is_none_or(|before| matters(&before, &pod))
    }

    /// Gives a pod of this machine to a worker if there is something to do for it.
    fn work(&mut self, uid: &str) {
        let Some(known) = self.pods.get_mut(uid).filter(|known| known.worker.is_none()) else { return };
        let node = known.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let ours = node == Some(&*self.shared.options.name);
        // What is over has to be removed when it is asked to go: nobody else would.
        let leaving = known.pod.metadata.deletion_timestamp.is_some();
        if !ours || (!leaving && (known.over || has_ended(&known.pod))) {
            return;
        }
        let (sender, receiver) = watch::channel(Some(Arc::clone(&known.pod)));
        known.worker = Some(sender);
        let worker = Worker::new(Arc::clone(&self.shared), uid.to_owned(), receiver);
        let uid = uid.to_owned();
        self.workers.spawn(async move {
            let Ok(over) = AssertUnwindSafe(worker.run()).catch_unwind().await else {
                // A bug of ours. The pod is taken up again, but not at once, so that a bug cannot keep the machine busy.
                tracing::error!(uid, "a pod's worker crashed");
                tokio::time::sleep(AFTER_CRASH).await;
                return (uid, false);
            };
            (uid, over)
        });
    }

    fn gone(&mut self, uid: &str) {
        self.odd.remove(uid);
        self.placing.forget(uid);
        match self.pods.remove(uid) {
            // The worker ends what is left.
            Some(Known { worker: Some(worker), .. }) => {
                worker.send_replace(None);
            }
            Some(Known { worker: None, .. }) => self.end(uid),
            None => {}
        }
    }

    fn end(&self, uid: &str) {
        let (shared, uid) = (Arc::clone(&self.shared), uid.to_owned());
        let lane = self.shared.files.lane();
        self.shared.spawn(async move { shared.end_pod(&uid, &lane).await });
    }

    fn ended(&mut self, ended: Result<(String, bool), tokio::task::JoinError>) {
        // Otherwise the node stops.
        let Ok((uid, over)) = ended else { return };
        if let Some(known) = self.pods.get_mut(&uid) {
            known.worker = None;
            known.over |= over;
        }
        // It may have been asked to go while its end was written.
        self.work(&uid);
    }

    /// Looks for directories of pods. At the first time secrets are removed that a crash left with pods that are gone.
    fn find_pods(&self) {
        let (shared, finding, first) = (Arc::clone(&self.shared), self.finding.clone(), !self.listed);
        self.shared.spawn(async move {
            let looking = blocking(move || {
                let is_gone = |uid: &String| {
                    let gone = shared.disk.owner(uid).is_some_and(|owner| owner.gone.is_some());
                    if gone && first {
                        shared.disk.scrub(uid);
                    }
                    gone
                };
                shared.disk.uids().into_iter().filter(|uid| !is_gone(uid)).collect()
            });
            // Otherwise the node stops.
            let _ = finding.send(looking.await);
        });
    }

    /// Ends containers of pods that vanished while no control plane was there, and removes secrets of those that have ended.
    /// The directories were found before: a pod that came since is not among them.
    fn end_strays(&self, found: &[String]) {
        let known = |uid: &&String| self.pods.contains_key(*uid) || self.odd.contains(*uid);
        let strays: Vec<String> = found.iter().filter(|uid| !known(uid)).cloned().collect();
        let shared = Arc::clone(&self.shared);
        self.shared.spawn(async move {
            let of = Arc::clone(&shared);
            let ending = blocking(move || aside::to_be_ended(&of, strays)).await;
            let ending = ending.iter().map(|uid| async {
                let lane = shared.files.lane();
                shared.end_pod(uid, &lane).await;
            });
            futures::future::join_all(ending).await;
        });
        let idle = |uid: &&String| self.pods.get(*uid).is_some_and(|known| known.worker.is_none());
        let (ended, shared): (Vec<String>, _) =
            (found.iter().filter(idle).cloned().collect(), Arc::clone(&self.shared));
        self.shared.spawn(blocking(move || ended.iter().for_each(|uid| shared.disk.scrub(uid))));
    }

    /// Places what can be placed. When to look again, if nothing else happens.
    fn place(&mut self) -> Option<Instant> {
        let begun = std::time::Instant::now();
        let pods = self.pods.values().map(|known| &known.pod);
        let pause = self.placing.place(pods);
        // With thousands of pods a decision takes its time: it may have a fifth of one processor, not all of it.
        self.patience = (begun.elapsed() * 4).clamp(PATIENCE, MOST_PATIENCE);
        pause.map(|pause| Instant::now() + pause)
    }

    /// Removes logs of pods that are long gone, or too many.
    fn sweep(&self) {
        let (shared, leftovers) = (Arc::clone(&self.shared), Arc::clone(&self.leftovers));
        self.shared.spawn(async move {
            let own = Arc::clone(&shared);
            let sweeping = shared.files.remove(move || {
                // One that still runs is enough.
                if let Ok(mut leftovers) = leftovers.try_lock() {
                    leftovers.sweep(&own.disk, own.options.keep, own.options.now());
                }
            });
            sweeping.await;
        });
    }
}

/// Whether a change of a pod may change what can be placed. Most are news of containers, and do not.
fn matters(before: &Pod, after: &Pod) -> bool {
    let bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let facts = |pod: &Pod| (bound(pod), has_ended(pod), pod.metadata.deletion_timestamp.is_some());
    let own = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
    facts(before) != facts(after) || own(before) != own(after) || (!bound(after) && before.spec != after.spec)
}
