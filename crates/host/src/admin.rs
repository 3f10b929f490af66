//! Probes and metrics of an operator, over plain HTTP, for kubelets and Prometheus.
//!
//! Anybody in the cluster's network can reach them. They tell figures and take nothing, and connections are bounded in
//! number and age.

mod metrics;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use trainyard_operator::Health;

use crate::leader::Leadership;

/// Connections at once.
const AT_ONCE: usize = 128;
/// A request has to arrive within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// A connection that is older is closed after its request.
const AGE: Duration = Duration::from_secs(300);
/// Before the next look when no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// `/healthz`: the process lives, and a new one could do no better. `/readyz`: it can be relied on.
pub fn probes(health: Health, leadership: Leadership) -> Router {
    let live = {
        let health = health.clone();
        move || {
            let stuck = health.stuck();
            std::future::ready(if stuck.is_empty() {
                (StatusCode::OK, "ok".to_owned())
            } else {
                let text = format!("the API server answers, but not these watches: {}", stuck.join(", "));
                (StatusCode::INTERNAL_SERVER_ERROR, text)
            })
        }
    };
    let ready = move || {
        // Who stands by is ready to take over.
        let ready = leadership.stands_by() && !health.is_held() || health.ready();
        let answer =
            if ready { (StatusCode::OK, "ok") } else { (StatusCode::INTERNAL_SERVER_ERROR, "not ready") };
        std::future::ready(answer)
    };
    Router::new().route("/healthz", get(live)).route("/readyz", get(ready))
}

/// `/metrics`, as Prometheus reads them.
pub fn metrics(health: Health, leadership: Leadership) -> Router {
    let page = move || {
        let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
        std::future::ready((kind, metrics::page(&health, &leadership)))
    };
    Router::new().route("/metrics", get(page))
}

/// Serves until `shutdown`.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match (accepted, Arc::clone(&room).try_acquire_owned()) {
            (Ok((stream, _)), Ok(permit)) => {
                let (router, shutdown) = (router.clone(), shutdown.clone());
                tokio::spawn(async move {
                    talk(stream, router, shutdown).await;
                    drop(permit);
                });
            }
            // Too many: this one is closed.
            (Ok(_), Err(_)) => {}
            (Err(error), _) => {
                tracing::debug!(%error, "no connection to probes or metrics could be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn talk(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let mut connection =
        std::pin::pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // What went wrong with it is the other side's to know.
        _ = connection.as_mut() => return,
        () = tokio::time::sleep(AGE) => {}
        () = shutdown.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(PATIENCE, connection).await;
}
