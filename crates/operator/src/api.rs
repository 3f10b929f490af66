//! Requests to the API server: paths, bodies and answers as they are, nothing decoded that nobody needs.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::timeout;
use trainyard_core::{Kind, Resource};

use crate::connect::Connections;
use crate::limiter::{Limiter, Load};
use crate::options::Effort;

/// What may stand in a path segment or a query value as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const STRATEGIC_PATCH: HeaderValue = HeaderValue::from_static("application/strategic-merge-patch+json");

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request could not be written down.
    #[error("the request is not valid HTTP")]
    Request(#[source] http::Error),
    /// The body could not be written down.
    #[error("the request body is not valid JSON")]
    Encode(#[source] serde_json::Error),
    /// The connection broke, or there was none.
    #[error("no answer from the API server")]
    Transport(#[source] Box<kube::Error>),
    /// It took too long.
    #[error("no answer from the API server in time")]
    Timeout,
}

/// The API server as the operator sees it.
#[derive(Debug)]
pub(crate) struct Api {
    client: Sender,
    connections: Option<Connections>,
    limiter: Limiter,
    timeout: Duration,
}

/// `kube::Client` has no `Debug`.
struct Sender(Client);

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// An answer: a status code and bytes.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: Bytes,
}

/// A `metav1.Status`, as far as it matters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) kind: Option<String>,
    pub(crate) code: Option<u16>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    name: Option<String>,
}

impl Status {
    /// True when it speaks of the object of this name, and not of its whole kind.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        self.details.as_ref().and_then(|details| details.name.as_deref()) == Some(name)
    }
}

impl Answer {
    /// The body as a `Status`, or an empty one.
    pub(crate) fn status(&self) -> Status {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// What the server said, for messages.
    pub(crate) fn message(&self) -> String {
        self.status().message.unwrap_or_else(|| self.code.to_string())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }
}

impl Api {
    pub(crate) fn new(client: Client, effort: Effort) -> Self {
        let (client, limiter) = (Sender(client), Limiter::new(effort));
        Self { client, connections: None, limiter, timeout: effort.timeout }
    }

    /// The same with connections that can be dropped, if the client has such.
    pub(crate) fn over(self, connections: Option<Connections>) -> Self {
        Self { connections, ..self }
    }

    /// Which connections are in use; see [`Self::drop_connections`].
    pub(crate) fn connections(&self) -> u64 {
        self.connections.as_ref().map_or(0, Connections::number)
    }

    /// A request over these connections was not answered: no other request is to be sent over them.
    pub(crate) fn drop_connections(&self, number: u64) {
        if let Some(connections) = &self.connections {
            connections.drop_all(number);
        }
    }

    /// Whether the server answers now, over a new connection where there are connections.
    pub(crate) async fn answers(&self) -> bool {
        match &self.connections {
            Some(connections) => connections.answers().await,
            None => self.get_aside("/version").await.is_ok_and(|answer| !answer.code.is_server_error()),
        }
    }

    pub(crate) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.call(request(Method::GET, path, None, Bytes::new())?).await
    }

    pub(crate) async fn create(&self, path: &str, body: &impl serde::Serialize) -> Result<Answer, Error> {
        self.call(request(Method::POST, path, Some(JSON), encode(body)?)?).await
    }

    pub(crate) async fn update(&self, path: &str, body: &impl serde::Serialize) -> Result<Answer, Error> {
        self.call(request(Method::PUT, path, Some(JSON), encode(body)?)?).await
    }

    pub(crate) async fn merge_patch(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<Answer, Error> {
        self.call(request(Method::PATCH, path, Some(MERGE_PATCH), encode(body)?)?).await
    }

    pub(crate) async fn strategic_patch(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<Answer, Error> {
        self.call(request(Method::PATCH, path, Some(STRATEGIC_PATCH), encode(body)?)?).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &impl serde::Serialize) -> Result<Answer, Error> {
        self.call(request(Method::DELETE, path, Some(JSON), encode(body)?)?).await
    }

    /// Creates without a permit: for what must never stand in the way of reconciles.
    pub(crate) async fn create_aside(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<Answer, Error> {
        let request = request(Method::POST, path, Some(JSON), encode(body)?)?;
        self.bounded(request).await.map(|(answer, _)| answer)
    }

    /// Reads without a permit: lists belong to watches, and those are few.
    pub(crate) async fn get_aside(&self, path: &str) -> Result<Answer, Error> {
        let request = request(Method::GET, path, None, Bytes::new())?;
        self.bounded(request).await.map(|(answer, _)| answer)
    }

    /// Opens a stream. The body is read by the caller, for as long as it likes.
    pub(crate) async fn stream(&self, path: &str) -> Result<http::Response<Body>, Error> {
        let mut request = request(Method::GET, path, None, Bytes::new())?;
        // Newer servers compress a watch one event at a time, which the client's middleware cannot read.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = timeout(self.timeout, self.client.0.send(request)).await.map_err(|_| Error::Timeout)?;
        answer.map_err(transport)
    }

    async fn call(&self, request: Request<Body>) -> Result<Answer, Error> {
        let permit = self.limiter.acquire().await;
        let result = self.bounded(request).await;
        permit.settle(match &result {
            Ok((answer, headers)) => load(answer.code, headers),
            Err(Error::Timeout) => Load::Too(None),
            Err(Error::Request(_) | Error::Encode(_) | Error::Transport(_)) => Load::Fine,
        });
        result.map(|(answer, _)| answer)
    }

    async fn bounded(&self, request: Request<Body>) -> Result<(Answer, HeaderMap), Error> {
        let exchange = async {
            let response = self.client.0.send(request).await.map_err(transport)?;
            let (parts, body) = response.into_parts();
            let body = body.collect_bytes().await.map_err(transport)?;
            Ok((Answer { code: parts.status, body }, parts.headers))
        };
        timeout(self.timeout, exchange).await.map_err(|_| Error::Timeout)?
    }
}

fn transport(error: kube::Error) -> Error {
    Error::Transport(Box::new(error))
}

fn load(code: StatusCode, headers: &HeaderMap) -> Load {
    match code {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Load::Too(seconds.map(Duration::from_secs))
        }
        _ => Load::Fine,
    }
}

fn encode(body: &impl serde::Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(body).map(Bytes::from).map_err(Error::Encode)
}

fn request(
    method: Method,
    path: &str,
    content_type: Option<HeaderValue>,
    body: Bytes,
) -> Result<Request<Body>, Error> {
    let mut builder = Request::builder().method(method).uri(path).header(ACCEPT, JSON);
    if let Some(content_type) = content_type {
        builder = builder.header(CONTENT_TYPE, content_type);
    }
    builder.body(Body::from(body)).map_err(Error::Request)
}

/// The path of all objects of a resource, in one namespace or in all of them.
pub(crate) fn collection(group: &str, version: &str, plural: &str, namespace: Option<&str>) -> String {
    let mut path =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        path.extend(utf8_percent_encode(namespace, PLAIN));
    }
    path.push('/');
    path.push_str(plural);
    path
}

/// The path of the children of one kind in a namespace.
pub(crate) fn children(what: &Resource, namespace: &str) -> String {
    collection(what.group, what.version, what.plural, Some(namespace))
}

/// The path of one child.
pub(crate) fn child(what: &Resource, namespace: &str, name: &str) -> String {
    object(children(what, namespace), name)
}

/// The path of one job.
pub(crate) fn job(kind: &Kind, namespace: &str, name: &str) -> String {
    object(collection(kind.group, kind.version, kind.plural, Some(namespace)), name)
}

fn object(mut collection: String, name: &str) -> String {
    collection.push('/');
    collection.extend(utf8_percent_encode(name, PLAIN));
    collection
}

/// A path with a query; absent values are left out.
pub(crate) fn query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut text = path.to_owned();
    let mut separator = '?';
    for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{key}={}", utf8_percent_encode(value, PLAIN));
        separator = '&';
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_where_things_are() {
        assert_eq!(children(&Resource::POD, "a"), "/api/v1/namespaces/a/pods");
        assert_eq!(child(&Resource::SERVICE, "a", "b"), "/api/v1/namespaces/a/services/b");
        assert_eq!(collection("kubeflow.org", "v1", "tfjobs", None), "/apis/kubeflow.org/v1/tfjobs");
        assert_eq!(child(&Resource::POD, "a", "../x"), "/api/v1/namespaces/a/pods/..%2Fx");
    }

    #[test]
    fn queries_leave_out_what_is_absent() {
        let pairs = [("limit", Some("5")), ("continue", None), ("labelSelector", Some("a/b in (c,d)"))];
        assert_eq!(query("/x", &pairs), "/x?limit=5&labelSelector=a%2Fb%20in%20%28c%2Cd%29");
        assert_eq!(query("/x", &[]), "/x");
    }
}
