//! Groups that others serve, and readiness that others decide.

use axum::Router;
use axum::extract::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_apiserver::{Extension, ExtensionResource, Server};

use crate::harness::{Api, clock, covers};

const NULL: Value = Value::Null;

/// Says what it was asked.
fn metrics() -> Extension {
    let resource = |name: &str, kind: &str, namespaced| ExtensionResource {
        name: name.into(),
        singular: String::new(),
        kind: kind.into(),
        namespaced,
        verbs: vec!["get".into(), "list".into()],
    };
    Extension {
        group: "metrics.k8s.io".into(),
        version: "v1beta1".into(),
        resources: vec![resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
        router: Router::new().fallback(async |request: Request| format!("asked {}", request.uri())),
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_listed_and_asked() {
    let api = Api::with(Server::options().clock(clock()).extension(metrics()));
    api.rows(&[
        (
            "GET",
            "/apis/metrics.k8s.io/v1beta1",
            NULL,
            200,
            json!({"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
                {"name": "nodes", "kind": "NodeMetrics", "namespaced": false, "verbs": ["get", "list"]},
                {"name": "pods", "kind": "PodMetrics", "namespaced": true, "verbs": ["get", "list"]}]}),
        ),
        (
            "GET",
            "/apis/metrics.k8s.io",
            NULL,
            200,
            json!({"kind": "APIGroup", "name": "metrics.k8s.io",
                "preferredVersion": {"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}}),
        ),
        (
            "GET",
            "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods?limit=5",
            NULL,
            200,
            json!("asked /apis/metrics.k8s.io/v1beta1/namespaces/a/pods?limit=5"),
        ),
        ("POST", "/apis/metrics.k8s.io/v1beta1/nodes", json!({}), 200, NULL),
        // Neither other versions nor other groups are its own.
        ("GET", "/apis/metrics.k8s.io/v1/nodes", NULL, 404, NULL),
        ("GET", "/apis/metrics.k8s.io/v1", NULL, 404, NULL),
        ("GET", "/apis/metrics.k8s.io.example.com/v1beta1/nodes", NULL, 404, NULL),
    ])
    .await;
    let groups = api.ok("GET", "/apis", NULL).await;
    let listed = groups["groups"].as_array().unwrap();
    assert!(listed.iter().any(|group| covers(group, &json!({"name": "metrics.k8s.io"}))), "{groups}");
    // Definitions of the same group come beside it.
    let mut definition = crate::harness::widgets();
    definition["metadata"]["name"] = json!("widgets.metrics.k8s.io");
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    definition["spec"]["group"] = json!("metrics.k8s.io");
    api.ok("POST", crate::harness::CRDS, definition).await;
    let group = api.ok("GET", "/apis/metrics.k8s.io", NULL).await;
    assert_eq!(group["versions"].as_array().unwrap().len(), 2, "{group}");
    assert_eq!(api.code("GET", "/apis/metrics.k8s.io/v1/widgets").await, 200);
    assert_eq!(api.code("GET", "/apis/metrics.k8s.io/v1beta1/nodes").await, 200);
}

#[tokio::test(start_paused = true)]
async fn readiness_is_what_it_is_told() {
    let synced = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&synced);
    let ready = move || match told.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err("operator: waiting for its first list of pods".to_owned()),
    };
    let api = Api::with(Server::options().clock(clock()).ready(ready));
    let waiting = json!("~[-]informer-sync failed: operator: waiting for its first list of pods\n");
    api.rows(&[
        ("GET", "/readyz", NULL, 500, waiting),
        ("GET", "/readyz?exclude=informer-sync", NULL, 200, json!("ok")),
        ("GET", "/readyz/informer-sync", NULL, 500, json!("~waiting for its first list of pods")),
        ("GET", "/readyz/ping", NULL, 200, json!("ok")),
        ("GET", "/livez", NULL, 200, json!("ok")),
        ("GET", "/healthz", NULL, 200, json!("ok")),
        ("POST", "/readyz", NULL, 405, NULL),
    ])
    .await;
    synced.store(true, Ordering::SeqCst);
    api.rows(&[("GET", "/readyz", NULL, 200, json!("ok"))]).await;
}
