//! The HTTPS server that the cluster's API server asks.
//!
//! Anybody in the cluster's network can reach it, so everything is bounded: connections and handshakes by
//! [`serve`](trainyard_apiserver::serve), here the size of a question, the time it takes to arrive, and how many are read
//! at once.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use trainyard_core::admission::webhook_path;
use trainyard_core::{Catalog, Kind};
use trainyard_operator::webhook::answer;

use crate::Error;
use crate::listen::everywhere;
use crate::pki::{Current, provider};

/// The largest question: two objects of the size that a server stores, and room.
const LARGEST: usize = 7 << 20;
/// Nobody waits longer for an answer: it is the longest time-out that a configuration may have.
const PATIENCE: Duration = Duration::from_secs(30);
/// Questions that are read at once.
const AT_ONCE: usize = 32;

/// Listens on every address of this machine.
pub(super) async fn listen(port: u16) -> Result<TcpListener, Error> {
    everywhere(port).await.map_err(|source| Error::WebhookPort { port, source })
}

/// TLS with the current certificate, for HTTP/2 and HTTP/1.1. Callers are not asked who they are: they learn nothing.
pub(super) fn tls(current: Arc<Current>) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Every kind of the catalogue, also those that the operator does not work on: whether a job is good does not depend on it.
pub(super) fn router(catalog: Catalog) -> Router {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    catalog.kinds.iter().fold(Router::new(), |router, kind| {
        let judge = Judge { catalog, kind, places: Arc::clone(&places) };
        router.route(&webhook_path(kind), post(review).with_state(judge))
    })
}

#[derive(Clone)]
struct Judge {
    catalog: Catalog,
    kind: &'static Kind,
    places: Arc<Semaphore>,
}

async fn review(State(judge): State<Judge>, body: Body) -> Response {
    let answered = tokio::time::timeout(PATIENCE, judge.review(body)).await;
    answered.unwrap_or_else(|_| said(StatusCode::REQUEST_TIMEOUT, "the question took too long to arrive"))
}

impl Judge {
    async fn review(self, body: Body) -> Response {
        let Ok(_place) = self.places.acquire().await else {
            return said(StatusCode::SERVICE_UNAVAILABLE, "the server stops");
        };
        let body = match to_bytes(body, LARGEST).await {
            Ok(body) => body,
            Err(error) => return said(StatusCode::BAD_REQUEST, &format!("cannot read the body: {error}")),
        };
        match answer(&self.catalog, self.kind, &body) {
            Ok(review) => ([(CONTENT_TYPE, "application/json")], review.to_string()).into_response(),
            Err(why) => said(StatusCode::BAD_REQUEST, &why),
        }
    }
}

/// A refusal as API servers show it to their users: the message of a `Status`.
fn said(code: StatusCode, message: &str) -> Response {
    let status = serde_json::json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message, "code": code.as_u16() });
    (code, [(CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::Client;

    use super::*;

    async fn refused(path: &str, body: Vec<u8>) -> (u16, String) {
        let client = Client::new(router(Catalog::default()), "default");
        let request = Request::post(path).body(body).unwrap();
        match client.request_text(request).await.unwrap_err() {
            kube::Error::Api(status) => (status.code, status.message.clone()),
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn what_is_no_question_is_refused_with_a_reason() {
        for kind in Catalog::default().kinds {
            let (code, said) = refused(&webhook_path(kind), b"{}".to_vec()).await;
            assert_eq!((code, said.as_str()), (400, "the body is no AdmissionReview of admission.k8s.io/v1"));
        }
        let path = webhook_path(Catalog::default().kinds[0]);
        let (code, said) = refused(&path, vec![b' '; LARGEST + 1]).await;
        assert_eq!((code, said.as_str()), (400, "cannot read the body: length limit exceeded"));
        let (code, said) = refused(&path, vec![b' '; LARGEST]).await;
        assert!(code == 400 && said.starts_with("the body is no JSON"), "{said}");
        assert_eq!(refused("/validate-kubeflow-org-v1-caffejob", Vec::new()).await.0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_does_not_arrive_is_given_up() {
        let kind = Catalog::default().kinds[0];
        let judge = Judge { catalog: Catalog::default(), kind, places: Arc::new(Semaphore::new(1)) };
        let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let response = review(State(judge.clone()), never).await;
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(judge.places.available_permits(), 1, "its place is free again");
    }
}
