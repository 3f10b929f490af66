//! File work, on threads that may block.
//!
//! A file system may take seconds (three pods with 300,000 files each are deleted), or never answer (a hostPath on a
//! dead NFS mount). The threads that serve the API must not wait for it. So file work goes to other threads, and each pod
//! has few of them: one for the node's own directories, one for paths that pods name. Paths that pods name may never
//! answer: nobody waits for them longer than [`PATIENCE`], and all pods together have [`OUTSIDE`] threads for them, so that
//! there are always others left.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

/// How long the node waits for a path that a pod names before it does something else.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threads that may hang at paths that pods name: far fewer than tokio has (512).
const OUTSIDE: usize = 128;
/// Directories of pods that are removed at once.
const REMOVALS: usize = 2;
/// Threads that work on the node's own directories: thousands of pods that end at once must not make thousands.
static OWN: Semaphore = Semaphore::const_new(48);

/// A path did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the file system does not answer")]
pub(crate) struct NoAnswer;

/// Threads for the file work of all pods.
#[derive(Debug)]
pub(crate) struct FileWork {
    outside: Arc<Semaphore>,
    removals: Arc<Semaphore>,
}

/// The threads of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    own: Arc<Semaphore>,
    outside: Arc<Semaphore>,
    seats: Arc<Semaphore>,
}

impl FileWork {
    pub(crate) fn new() -> Self {
        Self { outside: Arc::new(Semaphore::new(OUTSIDE)), removals: Arc::new(Semaphore::new(REMOVALS)) }
    }

    /// Threads for a pod.
    pub(crate) fn lane(&self) -> Lane {
        let one = || Arc::new(Semaphore::new(1));
        Lane { own: one(), outside: one(), seats: Arc::clone(&self.outside) }
    }

    /// Removes something large, a few at a time.
    pub(crate) async fn remove<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        in_turn(turn(&self.removals).await, work).await
    }
}

impl Lane {
    /// Works on the node's own directories, one piece after the other.
    pub(crate) async fn own<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = turn(&self.own).await;
        in_turn((turn, OWN.acquire().await), work).await
    }

    /// Works on paths that the pod names, one piece after the other.
    ///
    /// # Errors
    /// When they do not answer in time. The work may still be done later, and is not begun again before it was.
    pub(crate) async fn outside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let done = async {
            let (own, seat) = (turn(&self.outside).await, turn(&self.seats).await);
            in_turn((own, seat), work).await
        };
        timeout(PATIENCE, done).await.map_err(|_| NoAnswer)
    }
}

/// Works on the node's own directories, on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    in_turn(OWN.acquire().await, work).await
}

/// The turn ends with the work, also when nobody waits for the work any more.
async fn in_turn<T: Send + 'static>(
    turn: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let done = spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    match done.await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The program ends, and nobody waits any more.
        Err(Err(_)) => std::future::pending().await,
    }
}

async fn turn(of: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // It is never closed.
    Arc::clone(of).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Work that hangs until the other end is dropped.
    fn hanging() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (release, hung) = mpsc::channel::<()>();
        (release, move || {
            let _released = hung.recv();
        })
    }

    // Virtual time stands still while a thread blocks: these wait for real, and release the threads themselves.
    #[tokio::test]
    async fn a_pod_that_hangs_keeps_nobody_else() {
        let all = FileWork::new();
        let (stuck, other) = (all.lane(), all.lane());
        let (release, hang) = hanging();
        let hung = tokio::spawn({
            let stuck = stuck.clone();
            async move { stuck.own(hang).await }
        });
        while stuck.own.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(other.own(|| 1).await, 1);
        assert_eq!(stuck.outside(|| 2).await, Ok(2));
        assert_eq!(all.remove(|| 3).await, 3);
        drop(release);
        hung.await.unwrap();
        assert_eq!(stuck.own(|| 4).await, 4);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_keeps_its_turn() {
        let all = FileWork::new();
        let lane = all.lane();
        let (release, hang) = hanging();
        {
            let mut waiting = std::pin::pin!(lane.outside(hang));
            assert!(futures::poll!(waiting.as_mut()).is_pending());
            while lane.outside.available_permits() > 0 {
                assert!(futures::poll!(waiting.as_mut()).is_pending());
            }
        }
        assert_eq!(all.outside.available_permits(), OUTSIDE - 1);
        let mut next = std::pin::pin!(lane.outside(|| ()));
        assert!(futures::poll!(next.as_mut()).is_pending(), "not begun before the one that hangs has ended");
        drop(release);
        assert_eq!(next.await, Ok(()));
    }

    #[tokio::test]
    async fn paths_that_hang_leave_threads_for_everything_else() {
        let all = FileWork::new();
        let (releases, hung): (Vec<_>, Vec<_>) = (0..OUTSIDE + 20)
            .map(|_| {
                let ((release, hang), lane) = (hanging(), all.lane());
                (release, tokio::spawn(async move { lane.outside(hang).await }))
            })
            .unzip();
        while all.outside.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(all.lane().own(|| 1).await, 1);
        drop(releases);
        for one in hung {
            assert_eq!(one.await.unwrap(), Ok(()));
        }
    }
}
