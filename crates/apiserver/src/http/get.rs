//! GET of one object.

use axum::response::Response;

use super::{Call, list, reply};
use crate::failure::Failure;

pub(crate) async fn get(call: &Call) -> Result<Response, Failure> {
    if let Some(revision) = call.query.revision().map_err(Failure::unexpected)? {
        list::reach(&call.app, revision).await?;
    }
    let stored =
        call.app.store.get(&call.key()).ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
    reply::object(200, &call.served, &stored, call.render, &[])
}
