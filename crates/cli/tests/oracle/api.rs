//! The Kubernetes API as this test uses it: plain paths, and where which kind of object is.

use serde_json::Value;
use trainyard_testkit::rest::{Rest, text};

pub(crate) const JOBS: &str = "kubeflow.org/v1";

/// Everything an operator may create in a namespace, with the name it gets in a snapshot.
pub(crate) const CHILDREN: [(&str, &str); 9] = [
    ("pods", "/api/v1"),
    ("services", "/api/v1"),
    ("configmaps", "/api/v1"),
    ("serviceaccounts", "/api/v1"),
    ("roles", "/apis/rbac.authorization.k8s.io/v1"),
    ("rolebindings", "/apis/rbac.authorization.k8s.io/v1"),
    ("horizontalpodautoscalers", "/apis/autoscaling/v2"),
    ("podgroups", "/apis/scheduling.volcano.sh/v1beta1"),
    ("podgroups", "/apis/scheduling.x-k8s.io/v1alpha1"),
];

/// The collection of a built-in kind, or of a kind of job.
pub(crate) fn collection_of(object: &Value, namespace: &str) -> String {
    let version = text(object, "/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = format!("{}s", text(object, "/kind").to_lowercase());
    format!("/{root}/{version}/namespaces/{namespace}/{plural}")
}

pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// The items of a list; nothing where there is no such kind.
pub(crate) async fn items(rest: &Rest, path: &str) -> Vec<Value> {
    match rest.get(path).await {
        Ok(mut list) => match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => panic!("{path}: {error}"),
    }
}
