//! Following jobs to their end: their states, the logs of their replicas, and Ctrl-C.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use trainyard_api::reasons::suffix;
use trainyard_core::conditions::types;
use trainyard_node::{LogQuery, NodeLogs, NodeMetrics};

use super::display::{self, Display, Verdict};
use super::job::JobRef;
use super::replica::Replica;

/// How often the live display shows new lines.
const FRAME: Duration = Duration::from_millis(100);
/// How often it shows how replicas are.
const LOOK: Duration = Duration::from_millis(500);
/// Lines that may wait to be shown.
const LINES: usize = 4096;
/// Logs of what has ended are read to their end, but not for longer than this.
const DRAIN: Duration = Duration::from_secs(10);

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Followed {
    /// All jobs succeeded.
    Succeeded,
    /// One failed; the code is that of its first container that did.
    Failed { code: i32 },
    /// Somebody stopped it.
    Stopped { code: u8, killed: bool },
}

impl Followed {
    pub(crate) fn was_killed(&self) -> bool {
        matches!(self, Self::Stopped { killed: true, .. })
    }
}

/// Whose line, and the line.
type Line = (String, Vec<u8>);

/// What happened.
enum News {
    Job(Box<DynamicObject>, &'static str),
    Pod(Box<Pod>),
    PodGone(String),
}

pub(crate) struct Follower {
    client: Client,
    jobs: Vec<JobRef>,
    /// Jobs that have ended: whether well, and when.
    ended: BTreeMap<JobRef, (bool, Instant)>,
    replicas: BTreeMap<String, Replica>,
    /// First failures by job name, kept beyond their pods.
    failures: BTreeMap<(String, String), (jiff::Timestamp, i32)>,
    tails: BTreeSet<(String, String, u32)>,
    reading: JoinSet<()>,
    lines: (mpsc::Sender<Line>, mpsc::Receiver<Line>),
    logs: NodeLogs,
    metrics: Option<NodeMetrics>,
    display: Display,
    begun: Instant,
    next_look: Instant,
}

impl Follower {
    pub(crate) fn new(
        client: Client,
        jobs: Vec<JobRef>,
        logs: NodeLogs,
        metrics: Option<NodeMetrics>,
        display: Display,
    ) -> Self {
        Self {
            client,
            jobs,
            ended: BTreeMap::new(),
            replicas: BTreeMap::new(),
            failures: BTreeMap::new(),
            tails: BTreeSet::new(),
            reading: JoinSet::new(),
            lines: mpsc::channel(LINES),
            logs,
            metrics,
            display,
            begun: Instant::now(),
            next_look: Instant::now(),
        }
    }

    /// Follows until all jobs have ended, or somebody stops it.
    pub(crate) async fn follow(&mut self) -> anyhow::Result<Followed> {
        let mut news = self.news();
        let mut frames = tokio::time::interval(FRAME);
        let mut interrupts = crate::signals::signals()?;
        let mut stopping: Option<u8> = None;
        loop {
            if let Some(code) = stopping
                && self.replicas.is_empty()
            {
                return Ok(Followed::Stopped { code, killed: false });
            }
            if stopping.is_none() && self.ended.len() == self.jobs.len() {
                self.catch_up(&mut news).await;
                let all_over = self.replicas.values().all(|replica| replica.over);
                // What still runs belongs to jobs that have ended: nobody waits for it.
                if !all_over {
                    self.delete_jobs().await;
                }
                return Ok(self.outcome());
            }
            tokio::select! {
                biased;
                Some(code) = interrupts.recv() => {
                    if stopping.is_some() {
                        return Ok(Followed::Stopped { code, killed: true });
                    }
                    stopping = Some(code);
                    self.display.say("stopping (once more: at once)");
                    self.delete_jobs().await;
                }
                Some(line) = self.lines.1.recv() => self.show(line),
                Some(news) = news.next() => self.take(news),
                _ = frames.tick(), if self.display.is_live() => self.draw(),
            }
        }
    }

    /// Shows what is left of the logs.
    pub(crate) async fn finish(&mut self) {
        let drained = async {
            loop {
                tokio::select! {
                    biased;
                    Some(line) = self.lines.1.recv() => {
                        let (label, bytes) = line;
                        self.display.line(&label, &bytes);
                    }
                    ended = self.reading.join_next() => if ended.is_none() { break },
                }
            }
            while let Ok((label, bytes)) = self.lines.1.try_recv() {
                self.display.line(&label, &bytes);
            }
        };
        // A log that cannot be read to its end must not keep the caller.
        let _ = tokio::time::timeout(DRAIN, drained).await;
        let verdicts: Vec<Verdict> = self.jobs.iter().filter_map(|job| self.verdict(job)).collect();
        self.display.close(&verdicts);
    }

    fn verdict(&self, job: &JobRef) -> Option<Verdict> {
        let (well, at) = self.ended.get(job)?;
        let after = format!("after {}", display::exact_time(at.duration_since(self.begun)));
        let (state, rest) = match well {
            true => ("Succeeded", after),
            false => ("Failed", format!("{after} (exit code {})", self.code(job))),
        };
        Some(Verdict { job: format!("{} {}/{}", job.kind, job.namespace, job.name), state, rest })
    }

    fn news(&self) -> futures::stream::SelectAll<BoxStream<'static, News>> {
        let pods = watcher(Api::<Pod>::all(self.client.clone()), watcher::Config::default());
        let pods = pods.default_backoff().filter_map(async |event| match event.ok()? {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => Some(News::Pod(Box::new(pod))),
            watcher::Event::Delete(pod) => pod.metadata.uid.map(News::PodGone),
            watcher::Event::Init | watcher::Event::InitDone => None,
        });
        let kinds: BTreeMap<&str, &JobRef> = self.jobs.iter().map(|job| (job.kind, job)).collect();
        let jobs = kinds.into_values().map(|job| {
            let (resource, kind) = (job.api_resource(), job.kind);
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            let stream = watcher(api, watcher::Config::default()).default_backoff();
            stream
                .filter_map(async move |event| match event.ok()? {
                    watcher::Event::Apply(job) | watcher::Event::InitApply(job) => {
                        Some(News::Job(Box::new(job), kind))
                    }
                    // A job with a time to live may be gone before its end was seen: this is its last state.
                    watcher::Event::Delete(job) => Some(News::Job(Box::new(job), kind)),
                    watcher::Event::Init | watcher::Event::InitDone => None,
                })
                .boxed()
        });
        select_all(jobs.chain([pods.boxed()]))
    }

    fn take(&mut self, news: News) {
        match news {
            News::Job(job, kind) => self.take_job(&job, kind),
            News::Pod(pod) => self.take_pod(&pod),
            News::PodGone(uid) => {
                self.replicas.remove(&uid);
            }
        }
    }

    fn take_job(&mut self, object: &DynamicObject, kind: &str) {
        let (name, namespace) = (object.metadata.name.as_deref(), object.metadata.namespace.as_deref());
        let job = self.jobs.iter().find(|job| {
            job.kind == kind && Some(job.name.as_str()) == name && Some(job.namespace.as_str()) == namespace
        });
        let Some(job) = job.filter(|job| !self.ended.contains_key(job)).cloned() else { return };
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        let text = |condition: &Value, field: &str| {
            condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let holds: Vec<&Value> =
            conditions.iter().filter(|condition| text(condition, "status") == "True").collect();
        if let Some(why) = refused_for_good(&holds) {
            self.display.job(&job, types::FAILED, why);
            self.ended.insert(job, (false, Instant::now()));
            return;
        }
        let Some(last) = holds.last() else { return };
        let (type_, message) = (text(last, "type"), text(last, "message"));
        // A job that ran is not new again while its next replicas come up.
        if type_ == types::CREATED && conditions.iter().any(|c| text(c, "type") == types::RUNNING) {
            return;
        }
        self.display.job(&job, &type_, &message);
        match type_.as_str() {
            "Succeeded" => drop(self.ended.insert(job, (true, Instant::now()))),
            "Failed" => drop(self.ended.insert(job, (false, Instant::now()))),
            _ => {}
        }
    }

    fn take_pod(&mut self, pod: &Pod) {
        let replica = Replica::of(pod);
        for (container, newest) in &replica.runs {
            // A run may have come and gone between two looks.
            for number in newest.saturating_sub(1)..=*newest {
                self.tail(&replica, container, number);
            }
        }
        if let (Some(failure), Some(job)) = (replica.failure, &replica.job) {
            let first = self.failures.entry((replica.namespace.clone(), job.clone())).or_insert(failure);
            *first = failure.min(*first);
        }
        let before = self.replicas.get(&replica.uid);
        if before.is_none_or(|before| before.state != replica.state) {
            self.next_look = Instant::now();
        }
        self.display.replica(before, &replica);
        self.replicas.insert(replica.uid.clone(), replica);
    }

    fn tail(&mut self, replica: &Replica, container: &str, number: u32) {
        let key = (replica.uid.clone(), container.to_owned(), number);
        if !self.tails.insert(key) {
            return;
        }
        let Some(dir) = self.logs.run(&replica.uid, container, number) else { return };
        let label = self.display.label(replica, container);
        let query = LogQuery { follow: true, ..LogQuery::default() };
        let (mut log, lines) = (Box::pin(self.logs.read(dir, query)), self.lines.0.clone());
        self.reading.spawn(async move {
            let mut rest = Vec::new();
            while let Some(Ok(bytes)) = log.next().await {
                rest.extend_from_slice(&bytes);
                let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                let begun = rest.split_off(whole);
                for line in std::mem::replace(&mut rest, begun).split_inclusive(|byte| *byte == b'\n') {
                    if lines.send((label.clone(), line.to_vec())).await.is_err() {
                        return;
                    }
                }
            }
            if !rest.is_empty() {
                let _ = lines.send((label, rest)).await;
            }
        });
    }

    fn show(&mut self, (label, bytes): Line) {
        self.display.line(&label, &bytes);
    }

    fn draw(&mut self) {
        if Instant::now() < self.next_look {
            return self.display.flush();
        }
        self.next_look = Instant::now() + LOOK;
        let usage = self.metrics.as_ref().map(|metrics| metrics.usage(LOOK)).unwrap_or_default();
        let mut replicas: Vec<&Replica> = self.replicas.values().collect();
        self.display.draw(&mut replicas, &usage, &self.logs);
    }

    fn outcome(&self) -> Followed {
        let failed = self.ended.iter().find(|(_, (well, _))| !well);
        failed.map_or(Followed::Succeeded, |(job, _)| Followed::Failed { code: self.code(job) })
    }

    /// The code of the first container of a failed job that failed. Looked up late: jobs and pods are watched apart, and
    /// the news of the job may come first.
    fn code(&self, job: &JobRef) -> i32 {
        self.failures.get(&(job.namespace.clone(), job.name.clone())).map_or(1, |(_, code)| *code)
    }

    /// What the watch has not brought yet.
    async fn catch_up(&mut self, news: &mut (impl futures::Stream<Item = News> + Unpin)) {
        while let Some(Some(news)) = news.next().now_or_never() {
            self.take(news);
        }
        let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await;
        pods.into_iter().flatten().for_each(|pod| self.take_pod(&pod));
    }

    /// Deleting a job ends its pods, each with its grace period.
    async fn delete_jobs(&self) {
        for job in &self.jobs {
            // A job that is gone already is what we want.
            let _ = job.api(&self.client).delete(&job.name, &DeleteParams::background()).await;
        }
    }
}

/// Why a job never gets a child that it needs: the API will not have it as it is, and nobody here could change that. A
/// name that is taken may become free, and a disk may have room again.
fn refused_for_good<'c>(conditions: &[&'c Value]) -> Option<&'c str> {
    let text = |condition: &'c Value, field: &str| condition.get(field).and_then(Value::as_str);
    let waiting = conditions.iter().find(|condition| text(condition, "type") == Some(types::WAITING))?;
    let refused = text(waiting, "reason").is_some_and(|reason| reason.ends_with(suffix::REFUSED));
    let message = text(waiting, "message").filter(|_| refused)?;
    [" is invalid: ", " is forbidden: "].iter().any(|words| message.contains(words)).then_some(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_refused_for_good_is_not_waited_for() {
        let good =
            "Pod a cannot be created: Pod \"a\" is invalid: spec.containers[0].env[0].name: Invalid value";
        let taken = "Pod a cannot be created: pods \"a\" already exists";
        let quota = "Pod a cannot be created: pods \"a\" is forbidden: exceeded quota";
        for (reason, message, over) in [
            ("PyTorchJobChildRefused", good, true),
            ("PyTorchJobChildRefused", &*good.replace("invalid", "forbidden"), true),
            ("PyTorchJobChildRefused", taken, false),
            ("PyTorchJobQuotaExceeded", quota, false),
        ] {
            let created =
                json!({ "type": "Created", "reason": "PyTorchJobCreated", "message": "is invalid: " });
            let waiting = json!({ "type": "Waiting", "reason": reason, "message": message });
            assert_eq!(refused_for_good(&[&created, &waiting]), over.then_some(message));
            assert_eq!(refused_for_good(&[&created]), None);
        }
    }
}
