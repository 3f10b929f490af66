//! The operator as a role, on the embedded API or on a cluster.

use kube::Client;
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_operator::{Health, Operator};

use crate::Error;

/// An operator that is ready to run.
///
/// On a cluster this is all there is: the definitions are the administrator's to install.
#[derive(Debug)]
pub struct OperatorRole {
    operator: Operator,
}

/// An operator on any API server.
pub fn operator_on(
    client: Client,
    catalog: Catalog,
    options: trainyard_operator::Options,
) -> Result<OperatorRole, Error> {
    Ok(OperatorRole { operator: Operator::new(client, catalog, options)? })
}

impl OperatorRole {
    /// How it is doing: good before, while and after it runs.
    pub fn health(&self) -> Health {
        self.operator.health()
    }

    /// Runs until `shutdown`; what is under way then is finished.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.operator.run(shutdown).await;
        Ok(())
    }
}
