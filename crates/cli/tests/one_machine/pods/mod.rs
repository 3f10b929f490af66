//! Bare pods through the API of an `up`: everything the node does for a pod, with real processes.

mod inputs;
mod lives;
mod messages;
mod probes;

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::Client;
use kube::api::{Api, ListParams, LogParams, PostParams};
use serde_json::{Value, json};

use crate::kit::eventually;

/// A script without an end.
pub(super) const FOREVER: &str = "echo up; while :; do sleep 0.05; done";

pub(super) fn api(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

pub(super) fn pod(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "x" } }, "spec": spec })
}

pub(super) fn sh(name: &str, script: &str) -> Value {
    json!({ "name": name, "image": "none", "command": ["sh", "-c", script] })
}

/// A container with more to it.
pub(super) fn with(mut container: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        container[key] = value.clone();
    }
    container
}

pub(super) async fn make(client: &Client, pod: Value) -> Pod {
    let object: Pod = serde_json::from_value(pod).unwrap();
    api(client).create(&PostParams::default(), &object).await.unwrap()
}

pub(super) async fn object(client: &Client, plural: &str, value: Value) {
    let path = format!("/api/v1/namespaces/default/{plural}");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(value.to_string().into_bytes())
        .unwrap();
    client.request_text(request).await.unwrap();
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(super) async fn until(client: &Client, name: &str, wanted: &str) -> Pod {
    eventually(&format!("{name} is {wanted}"), async || {
        phase(&api(client).get(name).await.unwrap()) == wanted
    })
    .await;
    api(client).get(name).await.unwrap()
}

pub(super) async fn gone(client: &Client, name: &str) {
    eventually(&format!("{name} is gone"), async || api(client).get_opt(name).await.unwrap().is_none()).await;
}

pub(super) async fn log(client: &Client, name: &str, container: &str) -> String {
    let params = LogParams { container: Some(container.into()), ..LogParams::default() };
    api(client).logs(name, &params).await.unwrap_or_default()
}

pub(super) async fn events(client: &Client, name: &str) -> Vec<(String, String)> {
    let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let list = Api::<Event>::namespaced(client.clone(), "default").list(&params).await.unwrap();
    list.items.into_iter().map(|e| (e.reason.unwrap_or_default(), e.message.unwrap_or_default())).collect()
}

pub(super) fn container<'a>(pod: &'a Pod, name: &str) -> &'a ContainerStatus {
    let status = pod.status.as_ref().unwrap();
    let all =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    all.into_iter().find(|status| status.name == name).unwrap()
}

pub(super) fn waiting(pod: &Pod, name: &str) -> (String, String) {
    let status = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let found = status.into_iter().flatten().find(|status| status.name == name);
    let waiting = found.and_then(|status| status.state.clone()?.waiting);
    waiting.map(|w| (w.reason.unwrap_or_default(), w.message.unwrap_or_default())).unwrap_or_default()
}

pub(super) fn exit(pod: &Pod, name: &str) -> (i32, String, String) {
    let end = container(pod, name).state.as_ref().unwrap().terminated.clone().unwrap();
    (end.exit_code, end.reason.unwrap_or_default(), end.message.unwrap_or_default())
}

pub(super) fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
