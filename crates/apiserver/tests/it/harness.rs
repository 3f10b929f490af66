//! A server under test, and rows of request and expected answer.

use axum::Router;
use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;
use trainyard_apiserver::{Options, Server};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Virtual time as the server's clock: it starts in 2026 and moves only when tokio's does.
pub(crate) fn clock() -> impl Fn() -> Timestamp + Send + Sync + 'static {
    let start = tokio::time::Instant::now();
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    move || epoch + SignedDuration::try_from(start.elapsed()).unwrap()
}

pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) router: Router,
}

pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

impl Api {
    pub(crate) fn new() -> Self {
        Self::with(Server::options().clock(clock()))
    }

    pub(crate) fn with(options: Options) -> Self {
        let server = Server::open(options).unwrap();
        Self { router: server.router(), server }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { code: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// `POST`, `PUT`, … with JSON; `MERGE`, `JSON`, `STRATEGIC`, `APPLY` are PATCH with that media type.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Reply {
        let (method, media) = match method {
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "JSON" => ("PATCH", "application/json-patch+json"),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "PROTOBUF" => ("POST", "application/vnd.kubernetes.protobuf"),
            method => (method, "application/json"),
        };
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        self.send(request.body(body).unwrap()).await
    }

    /// A call that must succeed.
    pub(crate) async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let reply = self.call(method, path, body).await;
        assert!(reply.code < 300, "{method} {path}: {} {}", reply.code, reply.text);
        reply.json()
    }

    pub(crate) async fn code(&self, method: &str, path: &str) -> u16 {
        self.call(method, path, Value::Null).await.code
    }

    /// Runs rows in order: method, path, body, code, and a part of the answer.
    pub(crate) async fn rows(&self, rows: &[Row]) {
        for (index, (method, path, body, code, expected)) in rows.iter().enumerate() {
            let reply = self.call(method, path, body.clone()).await;
            let at = format!("row {index}: {method} {path}\n  answered {} {}", reply.code, reply.text);
            assert_eq!(reply.code, *code, "{at}");
            if !expected.is_null() {
                let actual = serde_json::from_str(&reply.text).unwrap_or_else(|_| json!(reply.text));
                assert!(covers(&actual, expected), "{at}\n  expected {expected}");
            }
        }
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_with(Request::builder().uri(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn watch_with(&self, request: Request<Body>) -> Watch {
        let path = request.uri().clone();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Watch { body: response.into_body().into_data_stream(), rest: String::new() }
    }

    /// Lets the controllers do everything they have to.
    pub(crate) async fn settle(&self) {
        // Virtual time moves on only once every task waits for something.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Creates a namespaced custom resource `widgets.example.com` with the usual subresources.
    pub(crate) async fn define_widgets(&self) {
        self.ok("POST", CRDS, widgets()).await;
    }
}

/// Method, path, body, code, part of the answer (null: any).
pub(crate) type Row = (&'static str, &'static str, Value, u16, Value);

/// Whether a value has everything another one has. Lists must have the same length; `"*"` is any value.
pub(crate) fn covers(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (_, Value::String(any)) if any == "*" => true,
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(k, v)| actual.get(k).map_or(v.is_null(), |found| covers(found, v)))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, e)| covers(a, e))
        }
        (Value::String(actual), Value::String(expected)) => {
            expected.strip_prefix('~').map_or(actual == expected, |part| actual.contains(part))
        }
        _ => actual == expected,
    }
}

pub(crate) struct Watch {
    body: BodyDataStream,
    rest: String,
}

impl Watch {
    /// The next event; nothing when the watch ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.rest.split_once('\n') {
                let event = serde_json::from_str(line).unwrap();
                self.rest = rest.to_owned();
                return Some(event);
            }
            let chunk = self.body.next().await?.unwrap();
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn brief(&mut self) -> String {
        match self.next().await {
            None => "END".into(),
            Some(event) => {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                format!("{} {}", text(&event["type"]), text(&event["object"]["metadata"]["name"]))
                    .trim()
                    .to_owned()
            }
        }
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}})
}

pub(crate) fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

pub(crate) fn rv(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "replicas": {"type": "integer", "default": 1, "minimum": 0},
                            "image": {"type": "string"},
                        }},
                        "status": {"type": "object", "properties": {
                            "replicas": {"type": "integer"}, "phase": {"type": "string"},
                        }},
                    },
                }},
            }],
        },
    })
}

pub(crate) fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"image": "a"}, "status": {"phase": "ignored"},
    })
}
