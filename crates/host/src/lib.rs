//! The roles of Trainyard in one process: start order, stop order, and who is to blame when one fails.
//!
//! [`Host`] is the whole of a single machine as a value: a store, the Kubernetes API over it, the definitions of the
//! jobs, the operator, the node, the socket. Tests, the CLI and programs that embed Trainyard start the same thing. Nothing in it knows
//! whether the clock is real.
//!
//! The start order is the flow of data (store, API, definitions, operator, node, socket) and the stop order is its reverse:
//! nobody ever talks to something that has already gone.

pub mod admin;
mod admission;
pub mod crds;
mod data_dir;
mod error;
mod files;
pub mod kubeconfig;
mod leader;
pub mod listen;
mod machine;
mod operator;
pub mod pki;
mod readiness;
mod rescue;
mod roles;
pub mod schema;
mod socket;
mod streams;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::Server;
use trainyard_apiserver::auth::Guard;
use trainyard_core::Catalog;
use trainyard_node::{Node, NodeLogs, NodeMetrics};
use trainyard_operator::Health;

pub use trainyard_apiserver::store::journal::{CHECK_THREAD, Salvaged};
pub use trainyard_apiserver::yaml;

pub use self::data_dir::{DataDir, VERSION, lock_file};
pub use self::error::Error;
pub use self::leader::Leadership;
pub use self::operator::{OperatorRole, operator_on};
pub use self::rescue::{begin_backup, complete_backup, lost_objects_file};
pub use self::socket::Socket;
pub use self::webhook::Webhooks;

use self::machine::Machine;
use self::pki::Pki;
use self::readiness::Readiness;
use self::roles::Roles;

/// Tells the time to every role.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a host is made of.
pub struct Options {
    /// Where objects are kept; in memory only if absent.
    pub store: Store,
    /// What the time is, for every role.
    pub clock: Clock,
    /// The definitions of the job kinds. [`crds::bundled`] are the ones we ship.
    pub crds: Vec<crds::Definition>,
    /// The kinds and frameworks the operator works with.
    pub catalog: Catalog,
    /// The operator; none if absent. Its clock is replaced by `clock`.
    pub operator: Option<trainyard_operator::Options>,
    /// This machine as a node; none if absent. Its clock is replaced by `clock`, and it learns where the socket is.
    pub node: Option<trainyard_node::Options>,
    /// A socket for others; none if absent.
    pub socket: Option<Socket>,
    /// Whether jobs are checked before they are stored. Otherwise the operator says what is wrong with them.
    pub admission: bool,
    /// Whether deployments, replica sets, jobs and endpoints are worked on.
    pub controllers: bool,
}

/// Where objects are kept.
pub enum Store {
    /// In memory: gone with the host.
    Memory,
    /// In a file of a data directory.
    In(DataDir),
}

impl Options {
    /// Everything on this machine but the machine itself, in memory, with the definitions we ship.
    pub fn local() -> Self {
        let operator = Some(trainyard_operator::Options::default());
        Self { crds: crds::bundled(), operator, admission: true, ..Self::bare() }
    }

    /// An API in memory, and nothing else.
    pub fn bare() -> Self {
        Self {
            store: Store::Memory,
            clock: trainyard_operator::system_clock(),
            crds: Vec::new(),
            catalog: Catalog::default(),
            operator: None,
            node: None,
            socket: None,
            admission: false,
            controllers: false,
        }
    }
}

/// A running host. Dropping it ends everything at once; [`Host::stop`] ends it in order.
pub struct Host {
    server: Server,
    client: Client,
    roles: Roles,
    health: Option<Health>,
    machine: Machine,
    readiness: Readiness,
    address: Option<SocketAddr>,
    /// Let go last: until then the directory is ours.
    _data_dir: Option<DataDir>,
}

impl Host {
    /// Starts everything, in order. Returns when the API serves the job kinds; see [`Host::ready`] for the rest.
    pub async fn start(options: Options) -> Result<Self, Error> {
        // A port that is taken is found before anything is written.
        let listener = match &options.socket {
            Some(socket) => Some(listen::bind_loopback(socket.port).await?),
            None => None,
        };
        let (machine, readiness) = (Machine::default(), Readiness::default());
        let now = (options.clock)();
        let pki =
            options.socket.as_ref().map(|socket| Pki::open(&socket.dir, now)).transpose()?.map(Arc::new);
        let address = listener.as_ref().map(tokio::net::TcpListener::local_addr).transpose();
        let mut server = server_options(&options, pki.as_deref(), &machine, &readiness)?;
        let reached_at = address.map_err(Error::Socket)?;
        if let Some(address) = reached_at {
            server = server.address(address);
        }
        let server = Server::open(server)?;
        let client = Client::new(server.router(), "default");
        crds::install(&client, &options.crds).await?;
        let mut roles = Roles::new();
        let mut health = None;
        if let Some(mut operator) = options.operator {
            operator.clock = Arc::clone(&options.clock);
            let operator = operator_on(client.clone(), options.catalog, operator)?;
            health = Some(operator.health());
            readiness.add("operator", health.clone().map(|health| move || health.ready()));
            roles.spawn("operator", operator.run(roles.shutdown()));
        }
        if let Some(mut node) = options.node {
            node.clock = Arc::clone(&options.clock);
            node.api = reached_at;
            let (name, node) = (node.name.clone(), Node::new(client.clone(), node));
            machine.set(name, &node);
            let ready = node.ready();
            readiness.add("node", Some(move || *ready.borrow()));
            let shutdown = roles.shutdown();
            roles.spawn("node", async move {
                node.run(shutdown).await;
                Ok(())
            });
        }
        let mut address = None;
        if let (Some(socket), Some(listener), Some(pki)) = (options.socket, listener, &pki) {
            let (at, serving) = socket::serve(&socket, listener, &server, pki, roles.shutdown())?;
            address = Some(at);
            roles.spawn("socket", serving);
            let clock = Arc::clone(&options.clock);
            roles.spawn("certificates", pki::keep(Arc::clone(pki), clock, roles.shutdown()));
        }
        let _data_dir = match options.store {
            Store::Memory => None,
            Store::In(dir) => Some(dir),
        };
        Ok(Self { server, client, roles, health, machine, readiness, address, _data_dir })
    }

    /// A client that speaks to the API without a socket in between.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API itself, to be served on a socket or wrapped in layers.
    pub fn router(&self) -> Router {
        self.server.router()
    }

    /// Finds out who requests are from, for those who serve the router themselves.
    pub fn guard(&self) -> Guard {
        self.server.guard()
    }

    /// Where the API can be reached by others, if it can.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Cancelled when the host begins to stop. Roles that somebody else runs beside it listen to it.
    pub fn shutdown(&self) -> CancellationToken {
        self.roles.shutdown()
    }

    /// How the operator is doing, if there is one.
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// The logs of this machine's containers, if it is a node.
    pub fn logs(&self) -> Option<NodeLogs> {
        self.machine.logs()
    }

    /// What this machine's containers use, if it is a node.
    pub fn metrics(&self) -> Option<NodeMetrics> {
        self.machine.metrics()
    }

    /// Returns once every role has seen the whole world; never, if one ends before.
    pub async fn ready(&self) {
        if let Some(health) = &self.health {
            health.until_ready().await;
        }
        self.machine.until_ready().await;
    }

    /// What is not ready yet.
    pub fn waiting_for(&self) -> Vec<&'static str> {
        self.readiness.missing()
    }

    /// Waits for the end of the host: of its own roles, by error or by somebody who cancelled [`Host::shutdown`].
    pub async fn wait(mut self) -> Result<(), Error> {
        let result = self.roles.join().await;
        self.machine.clear();
        self.server.shutdown().await;
        result
    }

    /// Ends every role, the last started first.
    pub async fn stop(self) -> Result<(), Error> {
        self.roles.shutdown().cancel();
        self.wait().await
    }
}

/// The API server to be opened.
fn server_options(
    options: &Options,
    pki: Option<&Pki>,
    machine: &Machine,
    readiness: &Readiness,
) -> Result<trainyard_apiserver::Options, Error> {
    let (clock, ready) = (Arc::clone(&options.clock), readiness.clone());
    let mut server = Server::options().clock(move || clock()).ready(move || ready.check());
    if let Store::In(dir) = &options.store {
        let backend = trainyard_apiserver::store::journal::Journal::open(&dir.objects())?;
        server = server.backend(backend);
    }
    if let Some(pki) = pki {
        server = server.authenticator(pki.authenticator()).accounts(pki.accounts());
    }
    if options.admission {
        server = admission::validators(options.catalog)
            .into_iter()
            .fold(server, |server, validator| server.validator(validator));
    }
    if !options.controllers {
        server = server.without_workloads();
    }
    if options.node.is_some() {
        server = server.pod_logs(Arc::new(machine.clone()));
        server = server.pod_streams(Arc::new(machine.clone()));
        server = server.extension(machine::metrics(machine.clone(), Arc::clone(&options.clock)));
    }
    Ok(server)
}
