//! The life of one pod on this machine: look, decide, act, say, wait, and again.
//!
//! Nothing here is remembered that could not be found again: a worker of a new control plane looks at the same
//! directories and goes on.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::Error;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::look::{self, Looked};
use super::probes::{self, Prober, Subject};
use super::refresh::{self, Refresher};
use super::sight::{Refusal, Run, Sight, containers};
use super::start;
use super::step::{Start, Step, Stop, step};
use crate::files::Lane;
use crate::runtime::Instance;
use crate::shared::{Running, Shared};

/// A pod that could not be started, or a status that could not be written, is tried again after this long.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// Works on one pod.
pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) uid: String,
    /// Threads for its file work.
    lane: Lane,
    pod: watch::Receiver<Option<Arc<Pod>>>,
    /// Somebody has news: a container started or ended, a probe answered.
    pub(super) news: Arc<Notify>,
    /// Waits for the end of each run that is up.
    waits: BTreeMap<(String, u32), AbortOnDropHandle<()>>,
    probers: BTreeMap<(String, u32), Prober>,
    /// While something runs that could read a volume that changes.
    refresher: Option<Refresher>,
    /// Until when each run was asked to end.
    asked: BTreeMap<(String, u32), Timestamp>,
    refusals: BTreeMap<String, Refusal>,
    veto: Option<Refusal>,
    /// What this machine does not do for the pod was said.
    noted: bool,
    /// The status that was written last: the watch brings it back a little later.
    pub(super) written: Option<PodStatus>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, uid: String, pod: watch::Receiver<Option<Arc<Pod>>>) -> Self {
        Self {
            lane: shared.files.lane(),
            shared,
            uid,
            pod,
            news: Arc::default(),
            waits: BTreeMap::new(),
            probers: BTreeMap::new(),
            refresher: None,
            asked: BTreeMap::new(),
            refusals: BTreeMap::new(),
            veto: None,
            noted: false,
            written: None,
        }
    }

    /// Works until the pod is over (true), or its object is gone. Dropping the future leaves the containers as they are.
    pub(crate) async fn run(mut self) -> bool {
        loop {
            let pod = self.pod.borrow_and_update().clone();
            let Some(pod) = pod else {
                self.show(&Pod::default(), &BTreeMap::new());
                self.shared.end_pod(&self.uid, &self.lane).await;
                return false;
            };
            let Some(step) = self.turn(&pod).await else { return true };
            self.wait(step).await;
        }
    }

    /// One round. Nothing is returned when there is nothing more to do for this pod.
    async fn turn(&mut self, pod: &Arc<Pod>) -> Option<Next> {
        let Looked { runs, follows } = match self.look(pod).await {
            Ok(looked) => looked,
            // Nothing is done about a pod of which nobody knows what runs: it could be started twice.
            Err(why) => {
                tracing::warn!(pod = ?pod.metadata.name, why, "cannot tell what became of a pod; will retry");
                self.shared.events.warning(pod, "FailedSync", &why, self.shared.options.now());
                return Some(Next::When { wake: None, retry: true });
            }
        };
        self.keep_volumes(&runs, follows);
        self.follow(pod, &runs);
        let decided = self.decide(pod, &runs);
        let mut retry = false;
        for stop in &decided.stop {
            retry |= !self.stop(pod, &runs, stop).await;
        }
        if !decided.start.is_empty() {
            if self.start(pod, &runs, &decided.start).await {
                return Some(Next::Now);
            }
            retry = true;
        }
        // What could not be started is part of the status.
        let decided = if retry { self.decide(pod, &runs) } else { decided };
        let over = matches!(decided.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        match self.report(pod, &decided.status).await {
            Ok(()) => {}
            Err(Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                tracing::warn!(pod = ?pod.metadata.name, %error, "cannot write the status of a pod; will retry");
                retry = true;
            }
        }
        if decided.remove && !retry {
            self.remove(pod).await;
        } else if over && !retry && !decided.remove {
            let (shared, uid) = (Arc::clone(&self.shared), self.uid.clone());
            // A volume that does not answer is tried again by the next control plane.
            let _ = start::in_lane(&self.lane, pod, move || shared.disk.scrub(&uid)).await;
            return None;
        }
        Some(Next::When { wake: decided.wake, retry })
    }

    fn decide(&self, pod: &Pod, runs: &BTreeMap<String, Run>) -> Step {
        step(&Sight {
            pod: &self.as_written(pod),
            runs,
            refusals: &self.refusals,
            veto: self.veto.as_ref(),
            back_off: self.shared.options.back_off,
            now: self.shared.options.now(),
        })
    }

    async fn look(&self, pod: &Arc<Pod>) -> Result<Looked, String> {
        let (shared, seen, uid) = (Arc::clone(&self.shared), Arc::clone(pod), self.uid.clone());
        let mut looked = self.lane.own(move || look::all(&shared, &seen, &uid)).await?;
        for (container, run) in &mut looked.runs {
            let Some(prober) = self.probers.get(&(container.clone(), run.number)) else { continue };
            run.health = prober.health();
            if let Some(trouble) = prober.take_trouble() {
                self.shared.events.warning(pod, "Unhealthy", &trouble.message, self.shared.options.now());
            }
        }
        Ok(looked)
    }

    /// Sees to it that the end of every run that is up is noticed, and that its probes are asked.
    fn follow(&mut self, pod: &Pod, runs: &BTreeMap<String, Run>) {
        let current = |key: &(String, u32)| {
            runs.get(&key.0)
                .is_some_and(|run| run.number == key.1 && !matches!(run.instance, Instance::Ended(_)))
        };
        // One that has gone quiet while its run goes on met an error, and is begun anew.
        self.waits.retain(|key, wait| current(key) && !wait.is_finished());
        self.show(pod, runs);
        self.probers.retain(|key, _| current(key));
        self.asked.retain(|key, _| current(key));
        for (_, container) in containers(pod) {
            let Some(run) = runs.get(&container.name) else { continue };
            let key = (container.name.clone(), run.number);
            if matches!(run.instance, Instance::Starting | Instance::Running { .. }) {
                let dir = self.shared.disk.run(&self.uid, &key.0, key.1);
                self.waits.entry(key.clone()).or_insert_with(|| {
                    let (runtime, news) = (self.shared.runtime.clone(), Arc::clone(&self.news));
                    AbortOnDropHandle::new(tokio::spawn(async move {
                        let started = runtime.started(&dir).await.is_ok();
                        news.notify_one();
                        // An error here is found again by the next look, which says so.
                        if !started || runtime.ended(&dir).await.is_err() {
                            tokio::time::sleep(RETRY).await;
                        }
                        news.notify_one();
                    }))
                });
            }
            if let Instance::Running { started_at, .. } = run.instance
                && probes::any(container)
            {
                self.probe(key, container, run, started_at);
            }
        }
    }

    fn keep_volumes(&mut self, runs: &BTreeMap<String, Run>, follows: bool) {
        let is_up = runs.values().any(|run| !matches!(run.instance, Instance::Ended(_)));
        if !is_up || !follows {
            self.refresher = None;
        } else if self.refresher.is_none() {
            self.refresher = Some(refresh::start(&self.shared, &self.uid, &self.lane, self.pod.clone()));
        }
    }

    /// Keeps the list of what runs, which is measured.
    fn show(&self, pod: &Pod, runs: &BTreeMap<String, Run>) {
        let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, run| run.uid != self.uid);
        let up = runs.iter().filter(|(_, run)| matches!(run.instance, Instance::Running { .. }));
        running.extend(up.map(|(container, run)| {
            let shown = Running {
                uid: self.uid.clone(),
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                pod: pod.metadata.name.clone().unwrap_or_default(),
                container: container.clone(),
                labels: pod.metadata.labels.clone().unwrap_or_default(),
            };
            (self.shared.disk.run(&self.uid, container, run.number), shown)
        }));
    }

    fn probe(&mut self, key: (String, u32), container: &Container, run: &Run, started_at: Timestamp) {
        let dir = self.shared.disk.run(&self.uid, &key.0, key.1);
        let runtime = self.shared.runtime.clone();
        let age = Duration::try_from(self.shared.options.now().duration_since(started_at));
        self.probers.entry(key).or_insert_with(|| {
            let subject =
                Subject { runtime, dir, container: container.clone(), age: age.unwrap_or_default() };
            Prober::start(subject, run.health, Arc::clone(&self.news))
        });
    }

    /// Asks a container to end. False if it could not be asked: then it is asked again a little later.
    async fn stop(&mut self, pod: &Pod, runs: &BTreeMap<String, Run>, stop: &Stop) -> bool {
        let Some(run) = runs.get(&stop.container) else { return true };
        let key = (stop.container.clone(), run.number);
        if self.asked.get(&key).is_some_and(|by| *by <= stop.by) {
            return true;
        }
        let now = self.shared.options.now();
        let grace = Duration::try_from(stop.by.duration_since(now)).unwrap_or(Duration::ZERO);
        let dir = self.shared.disk.run(&self.uid, &key.0, key.1);
        let runtime = self.shared.runtime.clone();
        match self.lane.own(move || runtime.stop(&dir, grace)).await {
            Ok(()) => {
                self.shared.events.normal(
                    pod,
                    "Killing",
                    &format!("Stopping container {}", stop.container),
                    now,
                );
                self.asked.insert(key, stop.by);
                true
            }
            Err(error) => {
                tracing::warn!(container = stop.container, %error, "cannot stop a container; will retry");
                self.shared.events.warning(pod, "FailedKillPod", &error.to_string(), now);
                false
            }
        }
    }

    /// Starts runs. True if one was: then the world has changed.
    async fn start(&mut self, pod: &Arc<Pod>, runs: &BTreeMap<String, Run>, starts: &[Start]) -> bool {
        let now = self.shared.options.now();
        if runs.is_empty() {
            if let Some(veto) = start::veto(pod) {
                self.shared.events.warning(pod, "PortTaken", &veto.message, now);
                self.veto = Some(veto);
                return true;
            }
            if !std::mem::replace(&mut self.noted, true) {
                let (shared, pod) = (Arc::clone(&self.shared), Arc::clone(pod));
                self.lane.own(move || start::note_what_is_not_honoured(&shared, &pod)).await;
            }
        }
        let mut any = false;
        for wanted in starts {
            match start::start(&self.shared, &self.lane, pod, &self.uid, wanted).await {
                Ok(()) => {
                    any = true;
                    self.refusals.remove(&wanted.container);
                    let name = &wanted.container;
                    self.shared.events.of_container(pod, name, "Started", "Container started", now);
                }
                Err(refusal) => {
                    self.shared.events.warning(pod, "Failed", &refusal.message, now);
                    self.refusals.insert(wanted.container.clone(), refusal);
                }
            }
        }
        any
    }

    async fn wait(&mut self, next: Next) {
        let Next::When { wake, retry } = next else { return };
        let now = self.shared.options.now();
        let until = wake.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO));
        let pause = until.into_iter().chain(retry.then_some(RETRY)).min();
        tokio::select! {
            // A closed channel means that the node stops; the task is dropped with it.
            changed = self.pod.changed() => if changed.is_err() { std::future::pending::<()>().await },
            () = self.news.notified() => {}
            () = sleep_or_for_ever(pause) => {}
        }
    }
}

enum Next {
    /// Look again at once.
    Now,
    /// Look again when something happens, or at a time.
    When { wake: Option<Timestamp>, retry: bool },
}

async fn sleep_or_for_ever(pause: Option<Duration>) {
    match pause {
        // A little later than due, never before: timers are rounded to milliseconds.
        Some(pause) => tokio::time::sleep(pause + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}
