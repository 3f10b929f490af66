//! Roles as tasks: the first that ends wrongly ends the others and is the error that is reported.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The running roles of a host.
pub(crate) struct Roles {
    tasks: JoinSet<Result<(), Error>>,
    shutdown: CancellationToken,
}

impl Roles {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), shutdown: CancellationToken::new() }
    }

    /// Cancelled when all roles are to end.
    pub(crate) fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Starts a role. It has to end when [`Roles::shutdown`] is cancelled, and not before.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tracing::info!(role = name, "started");
            let result = work.await;
            let early = result.is_ok() && !shutdown.is_cancelled();
            let result = if early { Err(Error::Ended(name)) } else { result };
            if let Err(error) = &result {
                tracing::error!(role = name, error = error as &dyn std::error::Error, "failed");
            } else {
                tracing::info!(role = name, "ended");
            }
            // Also on success: then the token is cancelled already, and this is nothing.
            shutdown.cancel();
            result
        });
    }

    /// Waits until all roles have ended; the first error is the one that counts. Without roles, waits for the
    /// token, so that a host that only serves the API ends when it is told to.
    pub(crate) async fn join(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        while let Some(joined) = self.tasks.join_next().await {
            let result = joined.map_err(Error::from).flatten();
            if result.is_err() {
                // A panic does not reach the end of the task, so the others have not been told yet.
                self.shutdown.cancel();
            }
            if outcome.is_ok() {
                outcome = result;
            }
        }
        self.shutdown.cancelled().await;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_to_end_wrongly_ends_the_rest_and_is_the_error() {
        let mut roles = Roles::new();
        let shutdown = roles.shutdown();
        roles.spawn("patient", async move {
            shutdown.cancelled().await;
            Ok(())
        });
        roles.spawn("hasty", async { Ok(()) });
        let error = roles.join().await.unwrap_err();
        assert!(matches!(error, Error::Ended("hasty")), "{error}");
    }

    #[tokio::test]
    async fn a_panic_ends_the_rest_too() {
        let mut roles = Roles::new();
        let shutdown = roles.shutdown();
        roles.spawn("patient", async move {
            shutdown.cancelled().await;
            Ok(())
        });
        roles.spawn("broken", async { panic!("a bug") });
        assert!(matches!(roles.join().await, Err(Error::Crashed(_))));
    }

    #[tokio::test]
    async fn a_host_without_roles_ends_when_told() {
        let mut roles = Roles::new();
        roles.shutdown().cancel();
        roles.join().await.unwrap();
    }
}
