//! The Kubernetes API in plain JSON, for the few objects beside jobs and their children: Leases, and what a host itself
//! reads and writes.

use http::{Method, Request};
use kube::Client;
use serde_json::Value;

/// One request; `Null` is no body.
///
/// # Errors
/// As [`Client::request`].
pub async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request =
        Request::builder().method(method).uri(path).header("content-type", "application/json").body(bytes);
    client.request(request.map_err(kube::Error::HttpError)?).await
}
