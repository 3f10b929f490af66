//! Logs as they come, for as long as the job lives: before its pods are there, over restarts and replaced pods, and
//! over connections that break.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::choose::{Replica, Run, container, replicas};
use super::line::{Line, Seen};
use super::together::{Pods, Together, pods_of};
use super::{Ask, Session, Whose};
use crate::client::cluster::{Lines, code};
use crate::client::fields::{condition, is_over, state, text, uid};
use crate::client::resource::Resource;
use crate::client::target::Job;
use crate::client::trouble::Trouble;

/// Between two looks at what has not happened yet.
const POLL: Duration = Duration::from_millis(300);
/// A stream that says nothing for this long makes one look whether the job is over.
const QUIET: Duration = Duration::from_secs(2);
/// How often, a second apart, a server that does not answer is asked again.
const PATIENCE: u32 = 120;

/// What there is to show of a replica now.
enum Now {
    /// A run of its container.
    Run(Run, Box<Value>),
    /// Nothing yet, because of this.
    Wait(String),
    /// Nothing ever again.
    Over,
}

/// How a stream ended.
#[derive(PartialEq, Eq)]
enum End {
    /// It was closed, or broke.
    Closed,
    /// The job is over and the stream has nothing more to say.
    Quiet,
    /// Nobody reads.
    Unread,
}

/// How often a server was asked in vain: one that restarts is there again in a while.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    /// Waits before the next try; the error once there were too many.
    async fn take(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match self.0 {
            0 => crate::complain(&format!("{error:#}; trying again")),
            PATIENCE.. => return Err(error),
            _ => {}
        }
        self.0 += 1;
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

/// What the followers of all replicas ask for.
#[derive(Default)]
struct Shared {
    pods: Together<Pods>,
    job: Together<Option<Value>>,
}

/// Follows one replica.
struct Follower {
    session: Session,
    shared: Arc<Shared>,
    replica: Replica,
    number: usize,
    /// Only the first run is cut to what the user asked for.
    first: bool,
    /// What was last said about waiting: it is said once.
    told: String,
}

/// Follows replicas; with `all`, also those that are added while it runs.
pub(super) async fn run(session: Session, chosen: Vec<Replica>, all: bool) -> anyhow::Result<ExitCode> {
    let (mut tasks, mut known, shared) = (JoinSet::new(), BTreeSet::new(), Arc::new(Shared::default()));
    let mut begin = |tasks: &mut JoinSet<anyhow::Result<()>>, chosen: Vec<Replica>| {
        for replica in chosen {
            let number = known.len();
            if known.insert(replica.pod.clone()) {
                let (session, shared) = (session.clone(), Arc::clone(&shared));
                let follower =
                    Follower { session, shared, replica, number, first: true, told: String::new() };
                tasks.spawn(follower.run());
            }
        }
    };
    begin(&mut tasks, chosen);
    loop {
        match timeout(QUIET, tasks.join_next()).await {
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Ok(Some(ended)) => ended??,
            Err(_) => {
                if let (Whose::Job(job), true) = (&session.whose, all)
                    && let Ok(Some(object)) = session.cluster.get(&job.path()).await
                {
                    let now = Job { object, ..(**job).clone() };
                    begin(&mut tasks, replicas(&session.cluster, &now, true, None).unwrap_or_default());
                }
            }
        }
    }
}

impl Follower {
    async fn run(mut self) -> anyhow::Result<()> {
        let mut done = None::<Run>;
        loop {
            match self.now().await? {
                Now::Over => return Ok(()),
                Now::Wait(why) => {
                    self.say_once(why);
                    sleep(POLL).await;
                }
                Now::Run(run, pod) if done.as_ref().is_some_and(|done| done.is(&run)) => {
                    if self.is_over(Some(&pod)).await? {
                        return Ok(());
                    }
                    sleep(POLL).await;
                }
                Now::Run(run, pod) => {
                    let container = self.container(&pod)?;
                    if self.tell(&run, &container).await? == End::Unread {
                        return Ok(());
                    }
                    self.first = false;
                    self.told.clear();
                    done = Some(run);
                }
            }
        }
    }

    fn say_once(&mut self, why: String) {
        if self.told != why {
            crate::complain(&why);
            self.told = why;
        }
    }

    fn container(&self, pod: &Value) -> anyhow::Result<String> {
        container(pod, self.session.container.as_deref(), self.session.trains())
    }

    async fn pod(&self) -> anyhow::Result<Option<Value>> {
        let mut patience = Patience::default();
        loop {
            match self.ask_for_pod().await {
                Ok(pod) => return Ok(pod),
                Err(error) => patience.take(error).await?,
            }
        }
    }

    /// The pod as it is. With many replicas all of their pods are read at once, for all who ask.
    async fn ask_for_pod(&self) -> anyhow::Result<Option<Value>> {
        let (cluster, pod) = (&self.session.cluster, &self.replica.pod);
        match &self.session.whose {
            Whose::Job(job) if self.session.out.prefix => {
                let pods = self.shared.pods.read(pods_of(cluster, job)).await?;
                Ok(pods.get(pod).cloned())
            }
            Whose::Job(_) | Whose::Pod => {
                cluster.get(&Resource::pods().object(&self.session.namespace, pod)).await
            }
        }
    }

    /// The job as it is; nothing if it is gone, or was never asked for.
    async fn job(&self) -> anyhow::Result<Option<Value>> {
        let Whose::Job(job) = &self.session.whose else { return Ok(None) };
        let (path, mut patience) = (job.path(), Patience::default());
        loop {
            match self.shared.job.read(self.session.cluster.get(&path)).await {
                Ok(now) => return Ok((*now).clone().filter(|now| uid(now) == job.uid())),
                Err(error) => patience.take(error).await?,
            }
        }
    }

    /// True when nothing will run any more.
    async fn is_over(&self, pod: Option<&Value>) -> anyhow::Result<bool> {
        Ok(match &self.session.whose {
            Whose::Job(_) => self.job().await?.is_none_or(|job| is_over(&job)),
            Whose::Pod => pod.is_none_or(|pod| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")),
        })
    }

    async fn now(&self) -> anyhow::Result<Now> {
        let pod = self.pod().await?;
        let run = match &pod {
            Some(pod) => Run::of(pod, &self.container(pod)?),
            None => None,
        };
        match (run, pod) {
            (Some(run), Some(pod)) => Ok(Now::Run(run, Box::new(pod))),
            (_, pod) => self.not_started(pod).await,
        }
    }

    async fn not_started(&self, pod: Option<Value>) -> anyhow::Result<Now> {
        let name = &self.replica.pod;
        if let Whose::Pod = self.session.whose {
            let wait = |pod: Value| {
                Trouble::of(&pod).map(|it| Now::Wait(format!("waiting for pod {name}: {}", it.why)))
            };
            let absent = || Now::Wait(format!("waiting for pod {name}: it is not there yet"));
            return Ok(pod.map_or_else(|| Some(absent()), wait).unwrap_or(Now::Over));
        }
        let Some(job) = self.job().await? else { return Ok(Now::Over) };
        if is_over(&job) {
            let state = state(&job);
            let message =
                condition(&job, state).map(|condition| text(condition, "/message")).unwrap_or_default();
            crate::complain(&format!(
                "{}: nothing to show: the job is {state}: {message}",
                self.replica.label
            ));
            return Ok(Now::Over);
        }
        let trouble = pod.as_ref().and_then(Trouble::of);
        let why = trouble.map_or_else(|| format!("the job is {}", state(&job)), |trouble| trouble.why);
        Ok(Now::Wait(format!("waiting for pod {name}: {why}")))
    }

    /// Shows one run to its end.
    async fn tell(&mut self, run: &Run, container: &str) -> anyhow::Result<End> {
        let mut seen = Seen::default();
        loop {
            let ended = self.stream(&mut seen, container, true, false).await?;
            if ended != End::Closed {
                return Ok(ended);
            }
            let now = self.pod().await?.and_then(|pod| Run::of(&pod, container));
            match now {
                Some(now) if now.is(run) && now.live => {}
                // The stream may have broken before the last lines.
                Some(now) if now.is(run) => {
                    return self.stream(&mut seen, container, false, false).await;
                }
                Some(now) if now.uid == run.uid && now.restarts == run.restarts.saturating_add(1) => {
                    return self.stream(&mut seen, container, false, true).await;
                }
                _ => return Ok(End::Closed),
            }
            sleep(POLL).await;
        }
    }

    /// Opens a stream where the last one ended, and shows what is new of it.
    async fn stream(
        &mut self,
        seen: &mut Seen,
        container: &str,
        follow: bool,
        previous: bool,
    ) -> anyhow::Result<End> {
        let mut ask = Ask { container: container.to_owned(), follow, previous, ..Ask::default() };
        ask.since = seen.since();
        if ask.since.is_none() && self.first {
            ask.since = self.session.ask.since;
            ask.tail = self.session.ask.tail;
        }
        let path = ask.path(&self.session.namespace, &self.replica.pod);
        match self.session.cluster.lines(&path).await {
            Ok(lines) => {
                seen.reopen();
                self.show(lines, seen).await
            }
            Err(error) if code(&error) == 403 || code(&error) == 401 => {
                Err(self.session.cluster.explain(error))
            }
            // Gone, not there yet, or no answer: the next look says which.
            Err(error) => {
                let why = format!(
                    "{}: {:#}; trying again",
                    self.replica.label,
                    self.session.cluster.explain(error)
                );
                self.say_once(why);
                Ok(End::Closed)
            }
        }
    }

    async fn show(&self, mut lines: Lines, seen: &mut Seen) -> anyhow::Result<End> {
        loop {
            let line = match timeout(QUIET, lines.next()).await {
                Ok(Ok(Some(line))) => Line::new(line),
                Ok(Ok(None) | Err(_)) => return Ok(End::Closed),
                Err(_) => {
                    let over = matches!(self.session.whose, Whose::Job(_)) && self.is_over(None).await?;
                    if over {
                        return Ok(End::Quiet);
                    }
                    continue;
                }
            };
            if seen.admit(&line) && !self.session.out.line(self.number, &self.replica.label, &line)? {
                return Ok(End::Unread);
            }
        }
    }
}
