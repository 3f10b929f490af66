//! Death of a process, seen from the API server: from one moment on nothing comes from it any more.
//!
//! Aborting a task is not enough: what it spawned would go on. Each life of an operator has a client of its own
//! behind a gate; when the gate shuts, requests that are under way never return and new ones are never sent.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request};
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

/// Where in a request a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It was about to send it.
    Before,
    /// It was applied; the answer reaches nobody.
    After,
}

/// One place to die: at the `write`th request that changes something, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which write.
    pub write: u64,
    /// On which side of it.
    pub moment: Moment,
}

/// The gate of one life. Cloning shares it.
#[derive(Clone, Default)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    writes: AtomicU64,
    death: Mutex<Option<Death>>,
    shut: CancellationToken,
}

impl Gate {
    /// Shuts by itself at `death`.
    pub fn dying(death: Option<Death>) -> Self {
        let gate = Self::default();
        *gate.shared.death.lock().unwrap_or_else(PoisonError::into_inner) = death;
        gate
    }

    /// Shuts it now.
    pub fn shut(&self) {
        self.shared.shut.cancel();
    }

    /// Returns once it is shut.
    pub async fn closed(&self) {
        self.shared.shut.cancelled().await;
    }

    /// Requests so far that change something.
    pub fn writes(&self) -> u64 {
        self.shared.writes.load(Ordering::SeqCst)
    }

    /// Puts the gate in front of a service.
    pub fn around<S>(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone() }
    }

    fn dies_at(&self, request: &Request<Body>) -> Option<Moment> {
        if request.method() == Method::GET {
            return None;
        }
        let write = self.shared.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let death = *self.shared.death.lock().unwrap_or_else(PoisonError::into_inner);
        death.filter(|death| death.write == write).map(|death| death.moment)
    }
}

/// A service behind a gate.
#[derive(Clone)]
pub struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, gate) = (self.inner.clone(), self.gate.clone());
        Box::pin(async move {
            let moment = gate.dies_at(&request);
            if moment == Some(Moment::Before) {
                gate.shut();
            }
            let answer = async {
                let answer = inner.oneshot(request).await;
                if moment == Some(Moment::After) {
                    gate.shut();
                    return pending().await;
                }
                answer
            };
            tokio::select! {
                biased;
                () = gate.closed() => pending().await,
                answer = answer => answer,
            }
        })
    }
}
