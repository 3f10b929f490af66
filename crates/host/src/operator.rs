//! The operator as a role, on the embedded API or on a cluster.

use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use trainyard_core::Catalog;
use trainyard_operator::lease::Election;
use trainyard_operator::{Clock, Health, Operator};

use crate::Error;
use crate::leader::Leadership;
use crate::webhook::{Keeper, Webhooks};

/// An operator that is ready to run.
///
/// On a cluster this is all there is: the definitions are the administrator's to install.
#[derive(Debug)]
pub struct OperatorRole {
    operator: Operator,
    keeper: Option<Keeper>,
    election: Option<Election>,
    leadership: Leadership,
}

/// An operator on any API server.
pub fn operator_on(
    client: Client,
    catalog: Catalog,
    options: trainyard_operator::Options,
) -> Result<OperatorRole, Error> {
    let operator = Operator::new(client, catalog, options)?;
    Ok(OperatorRole { operator, keeper: None, election: None, leadership: Leadership::undisputed() })
}

impl OperatorRole {
    /// The same with webhooks, which a cluster's API server asks before it stores a job.
    ///
    /// # Errors
    /// [`Error::WebhookPort`] when they are asked for now and cannot be served.
    pub async fn with_webhooks(
        self,
        client: Client,
        catalog: Catalog,
        webhooks: Webhooks,
        clock: Clock,
    ) -> Result<Self, Error> {
        let keeper = Keeper::open(client, catalog, webhooks, clock, self.health()).await?;
        Ok(Self { keeper: Some(keeper), ..self })
    }

    /// How it is doing: good before, while and after it runs.
    pub fn health(&self) -> Health {
        self.operator.health()
    }

    /// The same as one of several replicas, of which one works on jobs. All of them serve webhooks.
    #[must_use]
    pub fn with_election(self, election: Election) -> Self {
        Self { leadership: Leadership::of(election.name()), election: Some(election), ..self }
    }

    /// Whether it works or stands by: good before, while and after it runs.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Runs until `shutdown`; what is under way then is finished.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when another replica may have taken over: what was under way is dropped at once.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { operator, keeper, election, leadership } = self;
        // A task of its own: whatever becomes of the webhooks, jobs are worked on.
        let keeping = keeper.map(|keeper| AbortOnDropHandle::new(tokio::spawn(keeper.run(shutdown.clone()))));
        match election {
            None => operator.run(shutdown).await,
            Some(election) => lead(operator, election, &leadership, shutdown).await?,
        }
        if let Some(keeping) = keeping
            && let Err(error) = keeping.await
        {
            tracing::error!(%error, "webhooks were not served to the end");
        }
        Ok(())
    }
}

/// Works while the Lease is held.
async fn lead(
    operator: Operator,
    mut election: Election,
    leadership: &Leadership,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        () = election.win() => {}
    }
    leadership.set(true);
    let lost = tokio::select! {
        () = operator.run(shutdown) => None,
        why = election.keep() => Some(why),
    };
    leadership.set(false);
    match lost {
        None => {
            election.resign().await;
            Ok(())
        }
        Some(why) => Err(Error::LeaseLost { lease: election.name().to_owned(), why }),
    }
}
