//! The certificate of the moment, and who looks after it.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use super::Pki;
use crate::{Clock, Error};

/// How often it is looked at whether the certificate expires soon: often enough within the month that it is early.
const LOOK: Duration = Duration::from_secs(6 * 3600);

/// The certificate of the moment: connections that begin from then on see a new one.
#[derive(Default)]
pub(crate) struct Current(RwLock<Option<Arc<CertifiedKey>>>);

impl Current {
    pub(crate) fn set(&self, certified: Arc<CertifiedKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(certified);
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Renews the server's certificate for as long as the server runs. What cannot be renewed is said, and tried again.
pub(crate) async fn keep(pki: Arc<Pki>, clock: Clock, shutdown: CancellationToken) -> Result<(), Error> {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
        let (pki, now) = (Arc::clone(&pki), (clock)());
        // It reads and writes files.
        match tokio::task::spawn_blocking(move || pki.renew(now)).await? {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot renew the server's certificate"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{SignedDuration, Timestamp};
    use std::fs;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A server that runs for a year must not end up with a certificate that nobody accepts.
    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_renewed_while_the_server_runs() {
        let dir = tempfile::tempdir().unwrap();
        let began = tokio::time::Instant::now();
        let start: Timestamp = "2026-01-15T12:00:00Z".parse().unwrap();
        let clock: Clock = Arc::new(move || start + SignedDuration::try_from(began.elapsed()).unwrap());
        let pki = Arc::new(Pki::open(dir.path(), start).unwrap());
        let shutdown = CancellationToken::new();
        let kept = tokio::spawn(keep(Arc::clone(&pki), clock, shutdown.clone()));
        let file = || fs::read_to_string(dir.path().join("pki/server.crt")).unwrap();
        let served = || pki.current.0.read().unwrap().as_ref().unwrap().cert[0].to_vec();
        let first = (file(), served());
        tokio::time::sleep(300 * DAY).await;
        assert_eq!((file(), served()), first);
        tokio::time::sleep(40 * DAY).await;
        let second = (file(), served());
        assert!(second.0 != first.0 && second.1 != first.1);
        // What cannot be read is left alone, and the server goes on with what it has.
        fs::write(dir.path().join("pki/server.crt"), "garbage").unwrap();
        tokio::time::sleep(400 * DAY).await;
        assert_eq!((file(), served()), ("garbage".to_owned(), second.1.clone()));
        fs::remove_file(dir.path().join("pki/server.crt")).unwrap();
        tokio::time::sleep(DAY).await;
        assert_ne!(served(), second.1);
        shutdown.cancel();
        kept.await.unwrap().unwrap();
    }
}
