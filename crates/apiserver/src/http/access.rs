//! Who asks, and whether they may: before a request is routed anywhere.

use axum::body::Body;
use axum::extract::Request;
use std::sync::Arc;

use super::path;
use super::query::Query;
use crate::app::App;
use crate::auth::rbac::Ask;
use crate::auth::{Identity, impersonate, request};
use crate::failure::Failure;

/// Lets a request pass if its user may do what it asks for, and leaves that user in it. Whoever comes without one is
/// in this process.
pub(super) fn admit(app: &App, request: &mut Request<Body>) -> Result<Arc<Identity>, Failure> {
    let known = request.extensions().get::<Arc<Identity>>();
    let mut identity = known.map_or_else(|| Arc::clone(&app.internal), Arc::clone);
    if let Some(other) = impersonate::apply(&app.rbac, &identity, request.headers_mut())? {
        identity = Arc::new(other);
        request.extensions_mut().insert(Arc::clone(&identity));
    }
    if !identity.is_master() {
        check(app, &identity, &asked(request)?)?;
    }
    Ok(identity)
}

/// Refuses what somebody may not do.
pub(super) fn check(app: &App, identity: &Identity, ask: &Ask) -> Result<(), Failure> {
    let decision = app.rbac.decide(identity, ask);
    if decision.allowed {
        return Ok(());
    }
    Err(request::forbidden(&identity.name, ask, &decision.reason))
}

fn asked(request: &Request<Body>) -> Result<Ask, Failure> {
    let path = request.uri().path();
    let segments = path::segments(path).ok_or_else(|| Failure::bad_request("the path is not text"))?;
    let query = Query::parse(request.uri().query().unwrap_or_default(), request.method());
    let relevant = request::Query { watch: query.flag("watch"), field_selector: query.get("fieldSelector") };
    Ok(request::ask(request.method(), path, &segments, &relevant))
}
