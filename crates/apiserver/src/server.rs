//! The server as a value: opened with options, used through its router, stopped by dropping it.

use axum::Router;
use jiff::Timestamp;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::admission::{Validator, Webhooks};
use crate::app::App;
use crate::auth::accounts::homes;
use crate::auth::rbac::{self, Rbac};
use crate::auth::{Accounts, Authenticator, Guard, ISSUER, Identity, SigningKey};
use crate::builtin::addresses::{self, Addresses};
use crate::builtin::{self, CRD_TABLE, NAMESPACE_TABLE};
use crate::controllers;
use crate::extension::Extension;
use crate::http::{self, Aside, Shares, unread};
use crate::logs::PodLogs;
use crate::object::time;
use crate::registry::Registry;
use crate::store::backend::{Backend, BackendError};
use crate::store::history::History;
use crate::store::memory::Memory;
use crate::store::{Range, Stats, Store};
use crate::streams::{self, PodStreams};

/// Where the server takes the time from. Tests give it a clock that follows virtual time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What is missing before the server's answers can be relied on, if anything.
pub type Ready = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// How a server is opened. The defaults are a server in memory with the namespaces of a new cluster.
pub struct Options {
    /// Where objects are kept.
    pub backend: Box<dyn Backend>,
    /// What the time is.
    pub clock: Clock,
    /// How much of the past is kept for watchers that fall behind and lists that are continued.
    pub history: History,
    /// Namespaces made at the first start.
    pub namespaces: Vec<String>,
    /// How long an event is kept after its last change.
    pub event_ttl: Duration,
    /// Asked by `/readyz`.
    pub ready: Ready,
    /// Where logs of pods come from; without it they cannot be read.
    pub pod_logs: Option<Arc<dyn PodLogs>>,
    /// Who runs commands in pods and reaches their ports; without it nobody does.
    pub pod_streams: Option<Arc<dyn PodStreams>>,
    /// Whose credentials are whose, for requests that come over a socket.
    pub authenticator: Authenticator,
    /// Service accounts: their tokens, and what each namespace has for them. No namespace has any without it.
    pub accounts: Option<Accounts>,
    /// API groups that somebody else in this process serves.
    pub extensions: Vec<Extension>,
    /// Those in this process who are asked before objects are created or changed.
    pub validators: Vec<Validator>,
    /// Whether deployments, replica sets, jobs and endpoints are worked on here, or by somebody else.
    pub workloads: bool,
    /// Where this server can be reached, for the service `kubernetes`.
    pub address: Option<SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: Box::new(Memory),
            clock: Arc::new(wall_clock),
            history: History::default(),
            namespaces: ["default", "kube-node-lease", "kube-public", "kube-system"]
                .map(str::to_owned)
                .into(),
            event_ttl: Duration::from_secs(60 * 60),
            ready: Arc::new(|| Ok(())),
            pod_logs: None,
            pod_streams: None,
            authenticator: Authenticator::default(),
            // A key that nobody keeps: tokens end with the server.
            accounts: SigningKey::generate().ok().map(|key| Accounts::new(key, ISSUER, "")),
            extensions: Vec::new(),
            validators: Vec::new(),
            workloads: true,
            address: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("history", &self.history)
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Keeps objects in this backend.
    #[must_use]
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backend = Box::new(backend);
        self
    }

    /// Takes the time from this clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Keeps this much of the past; a number is one of events of each resource.
    #[must_use]
    pub fn history(mut self, history: impl Into<History>) -> Self {
        self.history = history.into();
        self
    }

    /// Makes these namespaces at the first start.
    #[must_use]
    pub fn namespaces<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.namespaces = names.into_iter().map(Into::into).collect();
        self
    }

    /// Knows whose credentials are whose.
    #[must_use]
    pub fn authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = authenticator;
        self
    }

    /// Has service accounts.
    #[must_use]
    pub fn accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Keeps events this long.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Answers `/readyz` with 200 while this is `Ok`, and otherwise with 500 and what it says is missing.
    #[must_use]
    pub fn ready(mut self, ready: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.ready = Arc::new(ready);
        self
    }

    /// Takes the logs of pods from here.
    #[must_use]
    pub fn pod_logs(mut self, logs: Arc<dyn PodLogs>) -> Self {
        self.pod_logs = Some(logs);
        self
    }

    /// Runs commands in pods, joins their programs and reaches their ports through this.
    #[must_use]
    pub fn pod_streams(mut self, streams: Arc<dyn PodStreams>) -> Self {
        self.pod_streams = Some(streams);
        self
    }

    /// Tells pods where this server is, by the service `kubernetes`.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Leaves deployments, replica sets, jobs and endpoints to somebody else, as to a real controller manager.
    #[must_use]
    pub fn without_workloads(mut self) -> Self {
        self.workloads = false;
        self
    }

    /// Asks this one before objects of its resource are created or changed.
    #[must_use]
    pub fn validator(mut self, validator: Validator) -> Self {
        self.validators.push(validator);
        self
    }

    /// Serves one more API group, through its own router.
    #[must_use]
    pub fn extension(mut self, extension: Extension) -> Self {
        self.extensions.push(extension);
        self
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the default of the injected clock is the one place to ask the machine"
)]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// Why a server could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The storage could not be read or prepared.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// There is no tokio runtime to run the controllers in.
    #[error("a server is opened inside a tokio runtime: {0}")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
}

/// A running API server. Its controllers (garbage collection, namespaces, definitions, workloads) run while it exists:
/// keep it as long as its router is in use.
pub struct Server {
    app: App,
    /// Dropping it ends watches and controllers.
    stop: watch::Sender<()>,
    controllers: JoinHandle<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Server {
    /// The options, to be changed and given to [`Server::open`].
    pub fn options() -> Options {
        Options::default()
    }

    /// Reads the backend and starts the controllers. Blocks while the backend is read; needs a tokio runtime.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let runtime = tokio::runtime::Handle::try_current()?;
        let store = Store::open(options.backend, options.history)?;
        let now = time((options.clock)());
        store.seed(builtin::seed::objects(&options.namespaces, &now))?;
        if let Some(accounts) = &options.accounts {
            store.seed(homes::seed(accounts, &options.namespaces, &now))?;
        }
        store.amend(rbac::defaults::changes(&store, &now).map_err(BackendError::Storage)?)?;
        if let Some(address) = options.address {
            let service = builtin::seed::api_service(&store, address, &now);
            store.amend(service.map_err(BackendError::Storage)?)?;
        }
        let (stop, stopped) = watch::channel(());
        let app = App {
            rbac: Arc::new(Rbac::new(store.clone())),
            webhooks: Arc::new(Webhooks::new(store.clone(), options.validators)),
            store,
            registry: Arc::new(Registry::new(options.extensions.into())),
            authenticator: Arc::new(options.authenticator),
            accounts: options.accounts.map(Arc::new),
            internal: Arc::new(Identity::internal("system:apiserver")),
            clock: options.clock,
            stop: stopped,
            namespaces: NAMESPACE_TABLE.into(),
            event_ttl: options.event_ttl,
            ready: options.ready,
            pod_logs: options.pod_logs,
            pod_streams: options.pod_streams,
            stream_places: Arc::new(Semaphore::new(streams::CONNECTIONS)),
            stream_shares: Shares::of(streams::CONNECTIONS_OF_ONE),
            addresses: Addresses::default(),
            aside: Aside::default(),
            unread: Shares::of(unread::MOST),
        };
        let all = Range { prefix: "", after: None, limit: usize::MAX };
        for table in [CRD_TABLE, addresses::TABLE] {
            for stored in app.store.page(table, all).items {
                app.notice(&stored, false);
            }
        }
        let controllers = runtime.spawn(controllers::run(app.clone(), options.workloads));
        Ok(Self { app, stop, controllers })
    }

    /// The API. `kube::Client::new` takes it as it is.
    pub fn router(&self) -> Router {
        http::router(self.app.clone())
    }

    /// Finds out who requests are from, for [`crate::auth::require`].
    pub fn guard(&self) -> Guard {
        self.app.guard()
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        self.app.store.stats()
    }

    /// Ends watches and controllers and waits until the latter are gone and what was decided is durable. The backend is
    /// closed when the last router is dropped.
    pub async fn shutdown(self) {
        drop(self.stop);
        if let Err(error) = self.controllers.await {
            tracing::error!(%error, "the controllers did not end well");
        }
        self.app.store.idle().await;
    }
}
