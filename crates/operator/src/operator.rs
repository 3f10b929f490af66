//! The tasks of an operator: watches that fill the queue, and a dispatcher that empties it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span};
use trainyard_api::labels;
use trainyard_core::{Addressing, Catalog, GangScheduler, Kind, Resource};

use crate::api::{self, Api};
use crate::events::{self, Events, Post};
use crate::health::{Health, SourceState};
use crate::options::Options;
use crate::priorities::{self, PrioritySink};
use crate::queue::{Key, Next};
use crate::reconcile::reconcile;
use crate::shell::Shell;
use crate::sinks::{ChildSink, EXTRAS, JobSink, PODS, SERVICES};
use crate::watch::{Follower, Sink, Source};

/// Between two looks at whether watches are heard of.
const LOOK_AFTER_WATCHES: Duration = Duration::from_secs(10);

/// Why an operator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing to do.
    #[error("no kinds to watch: the catalogue is empty, or none of the kinds asked for is in it")]
    NoKinds,
    /// A kind was asked for that is not there.
    #[error("unknown kind {0:?}")]
    UnknownKind(String),
    /// Ports in the wrong order.
    #[error("the port range {first}-{last} is empty")]
    EmptyPortRange {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
}

/// An operator that is ready to run.
#[derive(Debug)]
pub struct Operator {
    shell: Arc<Shell>,
    posts: Receiver<Post>,
}

impl Operator {
    /// An operator for the kinds of `catalog`, on the API server behind `client`.
    pub fn new(client: Client, catalog: Catalog, options: Options) -> Result<Self, Error> {
        let kinds = kinds(&catalog, &options)?;
        if let Some((first, last)) = options.ports.filter(|(first, last)| first > last) {
            return Err(Error::EmptyPortRange { first, last });
        }
        let watching = options.watch;
        let health =
            Health::new(Duration::from_secs(watching.seconds.into()) + watching.slack.saturating_mul(4));
        let (events, posts) = Events::new(options.effort.events, health.clone());
        let api = Arc::new(Api::new(client, options.effort).over(options.connections.clone()));
        let shell = Arc::new(Shell::new(api, catalog, kinds, options, events, health));
        Ok(Self { shell, posts })
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        self.shell.health.clone()
    }

    /// Runs until `shutdown`. What is under way then is finished; nothing new is begun.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { shell, posts } = self;
        let mut watches = watch_all(&shell);
        // In sets, so that whoever drops this future ends everything that belongs to it.
        let mut posting = JoinSet::new();
        posting.spawn(events::post_all(Arc::clone(&shell.api), posts, shell.health.clone()));
        let mut guard = JoinSet::new();
        guard.spawn(guard_watches(Arc::clone(&shell.api), shell.health.clone()));
        shutdown.run_until_cancelled(shell.health.until(|health| may_plan(&shell, health))).await;
        dispatch(&shell, &shutdown).await;
        guard.abort_all();
        watches.abort_all();
        while watches.join_next().await.is_some() {}
        shell.events.close();
        if timeout(shell.options.effort.farewell, posting.join_next()).await.is_err() {
            info!("some events were not posted in time");
        }
        info!("the operator has stopped");
    }
}

fn kinds(catalog: &Catalog, options: &Options) -> Result<Vec<&'static Kind>, Error> {
    let wanted = options.kinds.as_ref();
    if let Some(unknown) =
        wanted.iter().flat_map(|names| names.iter()).find(|name| catalog.kind(name).is_none())
    {
        return Err(Error::UnknownKind(unknown.clone()));
    }
    let chosen = |kind: &&Kind| wanted.is_none_or(|names| names.contains(kind.name));
    let kinds: Vec<&'static Kind> = catalog.kinds.iter().copied().filter(chosen).collect();
    if kinds.is_empty() { Err(Error::NoKinds) } else { Ok(kinds) }
}

/// One watch per kind, and one each for the pods and services of all kinds and for what else plans need.
fn watch_all(shell: &Arc<Shell>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let namespace = shell.options.namespace.as_deref();
    let controllers: Vec<&str> = shell.kinds.iter().map(|kind| kind.controller).collect();
    let selector = format!("{} in ({})", labels::OPERATOR_NAME, controllers.join(","));
    let child = |what: &Resource| Source {
        name: what.plural.into(),
        path: api::collection(what.group, what.version, what.plural, namespace),
        selector: Some(selector.clone()),
        optional: false,
    };
    let pods = ChildSink { shell: Arc::clone(shell), resource: &PODS };
    follow(shell, &mut watches, child(PODS.what), pods);
    let services = ChildSink { shell: Arc::clone(shell), resource: &SERVICES };
    follow(shell, &mut watches, child(SERVICES.what), services);
    for resource in EXTRAS.iter().filter(|resource| is_needed(shell, resource.what)) {
        let what = resource.what;
        let source = Source { name: format!("{}.{}", what.plural, what.group), ..child(what) };
        follow(shell, &mut watches, source, ChildSink { shell: Arc::clone(shell), resource });
    }
    if shell.options.plan.gang.is_some() {
        let (name, path) = (priorities::NAME.into(), priorities::PATH.into());
        // The role of the operator we replace does not allow it.
        let source = Source { name, path, selector: None, optional: true };
        follow(shell, &mut watches, source, PrioritySink { shell: Arc::clone(shell) });
    }
    for kind in &shell.kinds {
        let source = Source {
            name: format!("{}.{}", kind.plural, kind.group),
            path: api::collection(kind.group, kind.version, kind.plural, namespace),
            selector: None,
            optional: false,
        };
        follow(shell, &mut watches, source, JobSink { shell: Arc::clone(shell), kind });
    }
    watches
}

/// Whether any job may have such a child.
fn is_needed(shell: &Shell, what: &Resource) -> bool {
    let frameworks = shell.kinds.iter().filter_map(|kind| shell.catalog.0.framework(kind.framework));
    let mut extras = frameworks.flat_map(|framework| framework.facts().extras.iter().copied());
    let gang = shell.options.plan.gang.as_ref().map(GangScheduler::resource);
    extras.any(|extra| extra == what) || gang == Some(what)
}

fn follow(shell: &Shell, watches: &mut JoinSet<()>, source: Source, sink: impl Sink + 'static) {
    let span = info_span!("watch", source = %source.name);
    let api = Arc::clone(&shell.api);
    let follower = Follower::new(api, source, sink, shell.health.clone(), shell.options.watch);
    watches.spawn(follower.run().instrument(span));
}

/// Finds out whether watches that are not heard of are dead by our own fault: the server answers others, and goes on to
/// do so for longer than any watch waits before it tries again. A server that does not answer is no reason to end.
async fn guard_watches(api: Arc<Api>, health: Health) {
    let mut answers_since = None;
    loop {
        sleep(LOOK_AFTER_WATCHES).await;
        let silent = health.silent();
        if silent.is_empty() || !api.answers().await {
            answers_since = None;
            health.set_stuck(Vec::new());
            continue;
        }
        let since = *answers_since.get_or_insert_with(Instant::now);
        if since.elapsed() > health.silence().saturating_mul(2) {
            error!(?silent, "these watches are dead although the API server answers");
            health.set_stuck(silent);
        }
    }
}

/// Before the first plan all children must have been shown: a plan that sees half of them would create the others.
/// Where jobs share ports all jobs must have been shown too; gangs are as large as priorities make them. One kind that
/// cannot be listed stops no other.
fn may_plan(shell: &Shell, health: &Health) -> bool {
    let share_ports = shell.options.plan.addressing == Addressing::HostPorts;
    let needed = |name: &str| [PODS.what.plural, SERVICES.what.plural, priorities::NAME].contains(&name);
    let watches = health.watches();
    watches.iter().all(|(name, state)| *state != SourceState::Listing || !(share_ports || needed(name)))
}

/// Hands jobs out to tasks until `shutdown`, then waits for those under way.
async fn dispatch(shell: &Arc<Shell>, shutdown: &CancellationToken) {
    let mut running: JoinSet<(Key, Next)> = JoinSet::new();
    while !shutdown.is_cancelled() {
        start(shell, &mut running);
        let due =
            if running.len() < shell.options.effort.jobs.max(1) { shell.queue().next_due() } else { None };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            Some(done) = running.join_next() => finish(shell, done),
            () = shell.bell.notified() => {}
            () = sleep_until(shell.instant(due.unwrap_or_default())), if due.is_some() => {}
        }
    }
    let rest = async { while running.join_next().await.is_some() {} };
    if timeout(shell.options.effort.farewell, rest).await.is_err() {
        running.abort_all();
    }
}

/// Starts as many looks at jobs as may be under way.
fn start(shell: &Arc<Shell>, running: &mut JoinSet<(Key, Next)>) {
    while running.len() < shell.options.effort.jobs.max(1) {
        let Some(key) = shell.queue().pop(shell.moment()) else { break };
        let shell = Arc::clone(shell);
        let span = info_span!("reconcile", job = %key);
        let look = async move {
            // A job that makes the engine panic must not take the others with it.
            let look = AssertUnwindSafe(reconcile(&shell, &key)).catch_unwind().await;
            let next = look.unwrap_or_else(|_| {
                error!("the job made the operator panic; it is tried again");
                shell.counters().reconcile_errors.increment();
                Next::Retry(None)
            });
            (key, next)
        };
        running.spawn(look.instrument(span));
    }
    let counters = shell.counters();
    counters.running.set(running.len());
    counters.queued.set(shell.queue().len());
    counters.jobs.set(shell.jobs().len());
    let ends = shell.pods().ends();
    counters.pods_failed.set(ends.failed);
    counters.pods_deleted.set(ends.gone);
    counters.request_limit.set(shell.api.limiter().limit());
}

fn finish(shell: &Shell, done: Result<(Key, Next), tokio::task::JoinError>) {
    match done {
        Ok((key, next)) => shell.queue().done(&key, shell.moment(), next),
        Err(error) => error!(%error, "a task of the operator was ended"),
    }
}
