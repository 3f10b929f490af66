//! Work that takes long is done aside: on threads of its own, and by few of them at a time, so that the threads that
//! serve everybody never compute for one client.
//!
//! A request stays one future. Each of its steps between two waits is taken aside, and it holds a thread and a place
//! only during a step: a request that waits for the disk or for a webhook holds up no other.

use std::future::Future;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::{Notify, Semaphore};

use crate::failure::Failure;

/// Bytes to read, change or write from which on a request is done aside: about a millisecond of work. Going aside costs
/// a small part of that.
pub(crate) const LARGE: usize = 32 << 10;
/// Objects to look at from which on a list is made aside.
pub(crate) const MANY: usize = 500;

/// The places for work that is done aside. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    places: Arc<Semaphore>,
}

impl Default for Aside {
    /// Half of the cores, so that the others are left to requests that need little.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { places: Arc::new(Semaphore::new((cores / 2).max(1))) }
    }
}

impl Aside {
    /// What some work gives. If this future is dropped, the step that is being taken ends, and no other one begins.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Result<T, Failure> {
        let bell = Arc::new(Bell(Notify::new()));
        let waker = Waker::from(Arc::clone(&bell));
        let mut work = work;
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(Failure::internal)?;
            let waker = waker.clone();
            let step = tokio::task::spawn_blocking(move || {
                let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                drop(place);
                (work, polled)
            });
            match step.await {
                Ok((_, Poll::Ready(output))) => return Ok(output),
                Ok((rest, Poll::Pending)) => work = rest,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => return Err(Failure::internal("the server is shutting down")),
                },
            }
            bell.0.notified().await;
        }
    }
}

/// Rung when work that waits can go on.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[tokio::test(start_paused = true)]
    async fn work_may_wait() {
        let aside = Aside::default();
        let (sender, receiver) = oneshot::channel();
        let work = Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
            receiver.await.unwrap_or(0)
        });
        let ran = tokio::spawn(async move { aside.run(work).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        sender.send(7).unwrap();
        assert_eq!(ran.await.unwrap().unwrap(), 7);
    }

    /// Work that waits for others, as for a webhook that asks this server, must not keep them from being done.
    #[tokio::test]
    async fn work_that_waits_holds_no_place() {
        let aside = Aside { places: Arc::new(Semaphore::new(1)) };
        let (sender, receiver) = oneshot::channel();
        let first = {
            let aside = aside.clone();
            tokio::spawn(async move { aside.run(Box::pin(receiver)).await })
        };
        let second = Box::pin(async move { sender.send(1).is_ok() });
        assert!(aside.run(second).await.unwrap());
        assert_eq!(first.await.unwrap().unwrap(), Ok(1));
    }

    /// This runtime has one thread: if work were done on it, nothing could let the work go on.
    #[tokio::test]
    async fn the_threads_that_serve_go_on() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let aside = Aside::default();
        let ran = tokio::spawn(async move { aside.run(Box::pin(async move { receiver.recv() })).await });
        tokio::task::yield_now().await;
        sender.send(3).unwrap();
        assert_eq!(ran.await.unwrap().unwrap(), Ok(3));
    }

    #[tokio::test]
    async fn a_panic_is_passed_on() {
        let ran =
            tokio::spawn(async { Aside::default().run(Box::pin(async { panic!("on purpose") })).await });
        let error: tokio::task::JoinError = ran.await.map(|_: Result<(), Failure>| ()).unwrap_err();
        assert!(error.is_panic());
    }
}
