//! Looks after the webhooks for as long as the operator runs.
//!
//! Nothing is done until there is a configuration that sends questions here: no port, no Secret. So operators beside each
//! other on one machine, and on clusters without webhooks, have nothing to collide on and nothing to be given rights for;
//! and a configuration that is installed later is found.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_operator::Health;

use super::server::{listen, router, tls};
use super::{Trouble, Webhooks, configuration, secret};
use crate::pki::Current;
use crate::{Clock, Error};

/// How often everything is looked at: Secret, dates, configuration.
const LOOK: Duration = Duration::from_secs(5);
/// How often a configuration is looked for where there is none.
const ABSENT: Duration = Duration::from_secs(30);
/// Pauses after a failed look.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A look that takes longer is given up.
const SLOW: Duration = Duration::from_secs(60);
/// Part of the operator's readiness, under this name.
const NAME: &str = "webhooks";

/// What looks after the webhooks.
pub(crate) struct Keeper {
    client: Client,
    catalog: Catalog,
    webhooks: Webhooks,
    clock: Clock,
    health: Health,
    current: Arc<Current>,
    listener: Option<TcpListener>,
    serving: JoinSet<std::io::Result<()>>,
    /// The last one, which is not said twice.
    trouble: Option<String>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("webhooks", &self.webhooks).finish_non_exhaustive()
    }
}

/// How a look ended.
enum Look {
    /// Nobody asks us.
    Absent,
    Served,
    /// Served, with certificates that cannot be renewed.
    Troubled(Trouble),
}

impl Keeper {
    /// Listens, if there is a configuration.
    ///
    /// # Errors
    /// When the port cannot be used. Now that is an error, since nothing runs yet that it would stop; later it is a warning.
    pub(crate) async fn open(
        client: Client,
        catalog: Catalog,
        webhooks: Webhooks,
        clock: Clock,
        health: Health,
    ) -> Result<Self, Error> {
        let (current, serving) = (Arc::default(), JoinSet::new());
        let mut keeper = Self {
            client,
            catalog,
            webhooks,
            clock,
            health,
            current,
            listener: None,
            serving,
            trouble: None,
        };
        // Whatever else goes wrong here does so again in the first look, and is said there.
        if let Ok(Ok(Some(_))) = timeout(FIRST_PAUSE, configuration::read(&keeper.client)).await {
            keeper.health.hold(NAME);
            keeper.listener = Some(listen(keeper.webhooks.port).await?);
        }
        Ok(keeper)
    }

    /// Runs until `shutdown`; questions under way then are answered.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut failed = FIRST_PAUSE;
        loop {
            let look = tokio::select! {
                () = shutdown.cancelled() => break,
                look = timeout(SLOW, self.look(&shutdown)) => look.unwrap_or(Err(Trouble::Slow)),
            };
            let pause = match self.note(look) {
                Some(pause) => {
                    failed = FIRST_PAUSE;
                    pause
                }
                None => {
                    let longer = (failed * 2).min(LONGEST_PAUSE);
                    std::mem::replace(&mut failed, longer)
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                Some(ended) = self.serving.join_next() => {
                    tracing::warn!(?ended, "the server of the webhooks ended; starting it again");
                }
            }
        }
        while self.serving.join_next().await.is_some() {}
    }

    /// One look at everything, and what it asks for.
    async fn look(&mut self, shutdown: &CancellationToken) -> Result<Look, Trouble> {
        let Some(configuration) = configuration::read(&self.client).await? else { return Ok(Look::Absent) };
        let listener = match self.listener.take() {
            Some(listener) => Some(listener),
            None if self.serving.is_empty() => Some(listen(self.webhooks.port).await?),
            None => None,
        };
        self.listener = listener;
        let now = (self.clock)();
        let found = secret::certificates(&self.client, &self.webhooks, now).await?;
        if let Ok(certified) = found.pems.usable(&self.webhooks.dns_name(), now) {
            self.current.set(certified);
        }
        self.serve(shutdown)?;
        self.tell(configuration, found.pems.file(super::certificates::CA)).await?;
        Ok(found.trouble.map_or(Look::Served, Look::Troubled))
    }

    /// Starts the server, unless it runs.
    fn serve(&mut self, shutdown: &CancellationToken) -> Result<(), Error> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let tls = tls(Arc::clone(&self.current))?;
        let (router, shutdown) = (router(self.catalog), shutdown.clone());
        tracing::info!(port = self.webhooks.port, service = self.webhooks.dns_name(), "serving webhooks");
        self.serving.spawn(trainyard_apiserver::serve::serve(router, listener, tls, shutdown));
        Ok(())
    }

    /// Sees to it that the configuration names the authority.
    async fn tell(&self, mut configuration: Value, ca: &[u8]) -> Result<(), Trouble> {
        while !configuration::believe(&self.client, configuration, ca).await? {
            match configuration::read(&self.client).await? {
                Some(newer) => configuration = newer,
                None => break,
            }
        }
        Ok(())
    }

    /// Says what is new, and how long to wait for the next look; nothing if that failed.
    fn note(&mut self, look: Result<Look, Trouble>) -> Option<Duration> {
        let trouble = match look {
            Ok(Look::Absent) => {
                self.health.release(NAME);
                self.trouble = None;
                return Some(ABSENT);
            }
            Ok(Look::Served) => {
                self.health.release(NAME);
                if self.trouble.take().is_some() {
                    tracing::info!("webhooks work again");
                }
                return Some(LOOK);
            }
            Ok(Look::Troubled(trouble)) => {
                self.health.release(NAME);
                trouble.to_string()
            }
            Err(trouble) => trouble.to_string(),
        };
        if self.trouble.as_ref() == Some(&trouble) {
            tracing::debug!(trouble, "webhooks still have trouble");
        } else {
            tracing::warn!("{trouble}");
            self.trouble = Some(trouble);
        }
        None
    }
}
