//! All objects of one moment, for `trainyard backup`. A real API server has no such page.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::app::App;
use crate::store::backup;

/// The stream. It is made as the client reads it; the objects are those of now.
pub(super) fn answer(app: &App) -> Response {
    let (revision, objects) = app.store.snapshot();
    let parts = backup::of(revision, objects).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(stream::iter(parts)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}
