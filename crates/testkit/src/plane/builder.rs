//! What a plane is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_host::crds::Definition;
use trainyard_host::{DataDir, Host, Store};

use super::Plane;
use super::life::{Lives, Recipe};
use super::world::Mirror;
use crate::clock;
use crate::crds::Crds;
use crate::faults::Faults;
use crate::gate::Death;
use crate::kubelet::{Kubelet, PodInfo, PodScript, Scripts};
use crate::rest::{Rest, collection};

/// A plane in the making. By default: in memory, small definitions, an operator, pods that run for ever, no faults.
pub struct Builder {
    crds: Crds,
    catalog: Catalog,
    scripts: Scripts,
    faults: Faults,
    operator: bool,
    admission: bool,
    options: trainyard_operator::Options,
    data_dir: Option<PathBuf>,
    begins: Option<Timestamp>,
    deaths: Vec<Death>,
    down: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            crds: Crds::default(),
            catalog: Catalog::default(),
            scripts: Arc::new(|_| PodScript::runs()),
            faults: Faults::none(),
            operator: true,
            admission: false,
            options: trainyard_operator::Options::default(),
            data_dir: None,
            begins: None,
            deaths: Vec::new(),
            down: Duration::ZERO,
        }
    }
}

impl Builder {
    /// The definitions it serves.
    pub fn crds(mut self, crds: Crds) -> Self {
        self.crds = crds;
        self
    }

    /// The kinds and frameworks of its operator.
    pub fn catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// What happens to each pod.
    pub fn scripts(mut self, scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static) -> Self {
        self.scripts = Arc::new(scripts);
        self
    }

    /// What goes wrong between operator and API server. The kubelet and the test itself are spared.
    pub fn faults(mut self, faults: &Faults) -> Self {
        self.faults = faults.clone();
        self
    }

    /// Starts without an operator; see [`Plane::start_operator`].
    pub fn no_operator(mut self) -> Self {
        self.operator = false;
        self
    }

    /// Checks jobs before they are stored. Without it, as on clusters without webhooks, bad ones get in.
    pub fn admission(mut self) -> Self {
        self.admission = true;
        self
    }

    /// Changes the operator's options.
    pub fn options(mut self, change: impl FnOnce(&mut trainyard_operator::Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Keeps objects in this directory instead of memory.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// When it begins. A plane on the data of an earlier one begins after it.
    pub fn begins(mut self, time: Timestamp) -> Self {
        self.begins = Some(time);
        self
    }

    /// Where the first lives of the operator end, one each.
    pub fn deaths(mut self, deaths: impl IntoIterator<Item = Death>) -> Self {
        self.deaths = deaths.into_iter().collect();
        self
    }

    /// How long nobody is there after such a death.
    pub fn down(mut self, time: Duration) -> Self {
        self.down = time;
        self
    }

    /// Starts it. Needs a runtime whose time is paused, or the test takes as long as the jobs do.
    pub async fn start(self) -> Plane {
        let clock = self.begins.map_or_else(clock::virtual_clock, clock::virtual_clock_from);
        let host = Host::start(trainyard_host::Options {
            store: self
                .data_dir
                .map_or(Store::Memory, |dir| Store::In(DataDir::open(&dir).expect("the directory is free"))),
            clock: Arc::clone(&clock),
            crds: self.crds.objects(self.catalog.kinds).into_iter().map(Definition::Given).collect(),
            catalog: self.catalog,
            operator: None,
            node: None,
            socket: None,
            admission: self.admission,
            controllers: false,
        })
        .await
        .expect("the control plane starts");
        let client = Client::new(host.router(), "default");
        let shutdown = CancellationToken::new();
        let kinds: Vec<(String, &'static str)> = self
            .catalog
            .kinds
            .iter()
            .map(|kind| (collection(&kind.api_version(), kind.plural, None), kind.plural))
            .collect();
        let mirror = Mirror::start(&client, &kinds, &shutdown);
        let kubelet = Kubelet::new(client.clone(), Arc::clone(&clock), self.scripts);
        let history = kubelet.history();
        tokio::spawn(kubelet.run(shutdown.clone()));
        let mut options = self.options;
        options.clock = Arc::clone(&clock);
        let recipe = Recipe {
            router: host.router(),
            faults: self.faults,
            catalog: self.catalog,
            options,
            deaths: self.deaths,
            down: self.down,
        };
        let lives = Lives::begin(recipe, self.operator);
        Plane {
            rest: Rest::new(client),
            host,
            mirror,
            lives,
            history,
            clock,
            catalog: self.catalog,
            shutdown,
        }
    }
}
