//! What works inside the server, beside requests.

use axum::body::Body;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::app::App;
use crate::auth::Identity;
use crate::auth::accounts::{homes, secrets};
use crate::auth::rbac::aggregate;
use crate::store::Event;
use crate::{gc, http as api, protection, workloads};

/// Runs every controller until the server is stopped; those of workloads only if asked.
pub(crate) async fn run(app: App, workloads: bool) {
    let mut stop = app.stop.clone();
    let accounts = async {
        if let Some(accounts) = &app.accounts {
            tokio::join!(homes::run(&app, accounts), secrets::run(&app, accounts));
        }
    };
    let all = async {
        let workloads = async {
            if workloads {
                workloads::run(app.clone()).await;
            }
        };
        tokio::join!(gc::run(app.clone()), aggregate::run(&app), protection::run(&app), accounts, workloads);
    };
    tokio::select! {
        biased;
        _ = stop.changed() => {}
        () = all => {}
    }
}

/// A request to our own API, with all that it means: defaults, validation, webhooks. The error is its code and message.
pub(crate) async fn request(
    app: &App,
    user: &Identity,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Value, (u16, String)> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    let request = request.extension(Arc::new(user.clone())).body(Body::from(body.to_string()));
    let request = request.map_err(|error| (400, error.to_string()))?;
    let response = api::router(app.clone()).oneshot(request).await.unwrap_or_else(|never| match never {});
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(|error| (500, error.to_string()))?.to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if code < 300 {
        return Ok(answer);
    }
    let message = answer.get("message").and_then(Value::as_str);
    Err((code, message.map_or_else(|| String::from_utf8_lossy(&bytes).into_owned(), str::to_owned)))
}

/// Reads the events of a table as they come.
pub(crate) struct Follower {
    table: &'static str,
    wake: watch::Receiver<u64>,
    reached: u64,
}

impl Follower {
    /// Everything from now on.
    pub(crate) fn new(app: &App, table: &'static str) -> Self {
        let wake = app.store.subscribe(&table.into());
        Self { table, wake, reached: app.store.revision() }
    }

    /// Waits for news; false when there will be none.
    pub(crate) async fn changed(&mut self) -> bool {
        self.wake.changed().await.is_ok()
    }

    /// What happened since the last call; nothing if that is no longer known, so that everything has to be looked at.
    pub(crate) fn news(&mut self, app: &App) -> Option<Vec<Arc<Event>>> {
        let news = app.store.since(self.table, self.reached, usize::MAX);
        self.reached = news.as_ref().map_or_else(|_| app.store.revision(), |(_, reached)| *reached);
        news.ok().map(|(events, _)| events)
    }
}
