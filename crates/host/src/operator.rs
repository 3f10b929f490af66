//! The operator as a role, on the embedded API or on a cluster.

use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use trainyard_core::Catalog;
use trainyard_operator::{Clock, Health, Operator};

use crate::Error;
use crate::webhook::{Keeper, Webhooks};

/// An operator that is ready to run.
///
/// On a cluster this is all there is: the definitions are the administrator's to install.
#[derive(Debug)]
pub struct OperatorRole {
    operator: Operator,
    keeper: Option<Keeper>,
}

/// An operator on any API server.
pub fn operator_on(
    client: Client,
    catalog: Catalog,
    options: trainyard_operator::Options,
) -> Result<OperatorRole, Error> {
    Ok(OperatorRole { operator: Operator::new(client, catalog, options)?, keeper: None })
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

    /// Runs until `shutdown`; what is under way then is finished.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Some(keeper) = self.keeper else {
            self.operator.run(shutdown).await;
            return Ok(());
        };
        // A task of its own: whatever becomes of the webhooks, jobs are worked on.
        let keeping = AbortOnDropHandle::new(tokio::spawn(keeper.run(shutdown.clone())));
        self.operator.run(shutdown).await;
        if let Err(error) = keeping.await {
            tracing::error!(%error, "webhooks were not served to the end");
        }
        Ok(())
    }
}
