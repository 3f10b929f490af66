//! How controllers write: through the API, so that defaults, validation and history are those of every client.

use ::http::{Method, Request};
use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use tower::ServiceExt;

use crate::app::App;
use crate::auth::Identity;
use crate::http;

/// What the API said no to.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Refused {
    /// An error of ours.
    pub(super) fn internal(error: impl fmt::Display) -> Self {
        Self { code: 500, reason: "InternalError".into(), message: error.to_string() }
    }

    /// Whether the namespace takes nothing new: then there is nothing left to do.
    pub(super) fn is_terminating(&self) -> bool {
        self.code == 403 && self.message.contains("because it is being terminated")
    }
}

/// One of the controllers, as its requests name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    /// The component in events: `replicaset-controller`.
    pub(super) component: &'static str,
}

impl Actor {
    fn identity(self) -> Arc<Identity> {
        Arc::new(Identity::internal(&format!("system:serviceaccount:kube-system:{}", self.component)))
    }
}

pub(super) struct Client {
    router: Router,
}

impl Client {
    pub(super) fn new(app: App) -> Self {
        Self { router: http::router(app) }
    }

    pub(super) async fn create(&self, actor: Actor, path: &str, object: &Value) -> Result<Value, Refused> {
        self.send(actor, Method::POST, path, "application/json", object).await
    }

    pub(super) async fn update(&self, actor: Actor, path: &str, object: &Value) -> Result<Value, Refused> {
        self.send(actor, Method::PUT, path, "application/json", object).await
    }

    /// A merge patch.
    pub(super) async fn patch(&self, actor: Actor, path: &str, patch: &Value) -> Result<Value, Refused> {
        self.send(actor, Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Deletes exactly this object. One that is gone is no error.
    pub(super) async fn delete(
        &self,
        actor: Actor,
        path: &str,
        uid: &str,
        policy: &str,
    ) -> Result<(), Refused> {
        let options = json!({"preconditions": {"uid": uid}, "propagationPolicy": policy});
        match self.send(actor, Method::DELETE, path, "application/json", &options).await {
            Err(refused) if ![404, 409].contains(&refused.code) => Err(refused),
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        actor: Actor,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("user-agent", "kube-controller-manager")
            .extension(actor.identity())
            .body(Body::from(body.to_string()))
            .map_err(Refused::internal)?;
        let answer = self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(Refused::internal)?.to_bytes();
        let object: Value = serde_json::from_slice(&bytes).map_err(Refused::internal)?;
        if code < 300 {
            return Ok(object);
        }
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Err(Refused { code, reason: text("reason"), message: text("message") })
    }
}

/// `/apis/apps/v1/namespaces/default/replicasets/name`.
pub(super) fn path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/{root}/{api_version}/namespaces/{namespace}/{plural}{slash}{name}")
}
