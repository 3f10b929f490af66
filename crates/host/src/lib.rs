//! The roles of Trainyard in one process: start order, stop order, and who is to blame when one fails.
//!
//! [`Host`] is the whole of a single machine as a value: a store, the Kubernetes API over it, the definitions of the
//! jobs, the operator. Tests, the CLI and programs that embed Trainyard start the same thing. Nothing in it knows
//! whether the clock is real.
//!
//! The start order is the flow of data (store, API, definitions, operator) and the stop order is its reverse:
//! nobody ever talks to something that has already gone.

pub mod crds;
mod error;
mod operator;
mod roles;
pub mod schema;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::Server;
use trainyard_core::Catalog;
use trainyard_operator::Health;

pub use self::error::Error;
pub use self::operator::{OperatorRole, operator_on};

use self::roles::Roles;

/// Tells the time to every role.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a host is made of.
pub struct Options {
    /// Where objects are kept; in memory only if absent.
    pub data_dir: Option<PathBuf>,
    /// What the time is, for every role.
    pub clock: Clock,
    /// The definitions of the job kinds. [`crds::bundled`] are the ones we ship.
    pub crds: Vec<Value>,
    /// The kinds and frameworks the operator works with.
    pub catalog: Catalog,
    /// The operator; none if absent. Its clock is replaced by `clock`.
    pub operator: Option<trainyard_operator::Options>,
}

impl Options {
    /// Everything on this machine, in memory, with the definitions we ship.
    pub fn local() -> Result<Self, Error> {
        Ok(Self {
            data_dir: None,
            clock: trainyard_operator::system_clock(),
            crds: crds::bundled()?,
            catalog: Catalog::default(),
            operator: Some(trainyard_operator::Options::default()),
        })
    }
}

/// A running host. Dropping it ends everything at once; [`Host::stop`] ends it in order.
pub struct Host {
    server: Server,
    client: Client,
    roles: Roles,
    health: Option<Health>,
}

impl Host {
    /// Starts everything, in order. Returns when the API serves the job kinds; see [`Host::ready`] for the operator.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let server = open(&options)?;
        let client = Client::new(server.router(), "default");
        crds::install(&client, &options.crds).await?;
        let mut roles = Roles::new();
        let mut health = None;
        if let Some(mut operator) = options.operator {
            operator.clock = options.clock;
            let operator = operator_on(client.clone(), options.catalog, operator)?;
            health = Some(operator.health());
            let shutdown = roles.shutdown();
            roles.spawn("operator", operator.run(shutdown));
        }
        Ok(Self { server, client, roles, health })
    }

    /// A client that speaks to the API without a socket in between.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API itself, to be served on a socket or wrapped in layers.
    pub fn router(&self) -> Router {
        self.server.router()
    }

    /// Cancelled when the host begins to stop. Roles that somebody else runs beside it listen to it.
    pub fn shutdown(&self) -> CancellationToken {
        self.roles.shutdown()
    }

    /// How the operator is doing, if there is one.
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// Returns once every role has seen the whole world; never, if one ends before.
    pub async fn ready(&self) {
        if let Some(health) = &self.health {
            health.until_ready().await;
        }
    }

    /// Waits for the end of the host: of its own roles, by error or by somebody who cancelled [`Host::shutdown`].
    pub async fn wait(mut self) -> Result<(), Error> {
        let result = self.roles.join().await;
        self.server.shutdown().await;
        result
    }

    /// Ends every role, the last started first.
    pub async fn stop(self) -> Result<(), Error> {
        self.roles.shutdown().cancel();
        self.wait().await
    }
}

fn open(options: &Options) -> Result<Server, Error> {
    let clock = Arc::clone(&options.clock);
    let mut server = Server::options().clock(move || clock());
    if let Some(dir) = &options.data_dir {
        let backend = trainyard_apiserver::store::redb::Redb::open(&dir.join("objects.redb"))?;
        server = server.backend(backend);
    }
    Ok(Server::open(server)?)
}
