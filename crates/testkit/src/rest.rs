//! The Kubernetes API in plain JSON: what a test says to the server, without types in between.

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

/// What a refused request looks like.
pub type Answer<T = Value> = Result<T, kube::Error>;

/// Plain verbs on paths.
#[derive(Clone)]
pub struct Rest {
    client: Client,
}

impl Rest {
    /// Speaks through `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client it speaks through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", None).await
    }

    /// Creates an object in a collection.
    pub async fn post(&self, collection: &str, body: &Value) -> Answer {
        self.send(Method::POST, collection, "application/json", Some(body)).await
    }

    /// Replaces an object.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", Some(body)).await
    }

    /// Changes an object by merge patch.
    pub async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    /// Deletes an object with the given `DeleteOptions` fields.
    pub async fn delete(&self, path: &str, options: &Value) -> Answer {
        self.send(Method::DELETE, path, "application/json", Some(options)).await
    }

    /// Deletes exactly the object with this uid, without waiting for a node.
    pub async fn remove(&self, path: &str, uid: &str) -> Answer {
        self.delete(path, &json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } })).await
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: Option<&Value>) -> Answer {
        let body = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content)
            .body(body)
            .expect("paths in tests are legal");
        self.client.request(request).await
    }
}

/// The HTTP status of a refusal; 0 for one that never reached a server.
pub fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// `/apis/kubeflow.org/v1/namespaces/default/tfjobs`, or the same without a namespace.
pub fn collection(api_version: &str, plural: &str, namespace: Option<&str>) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    match namespace {
        Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{api_version}/{plural}"),
    }
}

/// Path of a pod.
pub fn pod(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// Text at a JSON pointer, empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}
