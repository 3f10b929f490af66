//! Pods: defaults, placing, graceful deletion.

use serde_json::{Value, json};

use crate::harness::{Api, PODS, pod};

const NULL: Value = Value::Null;

#[tokio::test(start_paused = true)]
async fn pods_get_defaults_and_are_checked() {
    let api = Api::new();
    api.rows(&[
        ("POST", PODS, pod("p"), 201, json!({
            "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "containers": [{"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}]},
            "status": {"phase": "Pending", "qosClass": "BestEffort"}, "metadata": {"generation": 1}})),
        ("POST", PODS, json!({"metadata": {"name": "q"}, "spec": {}}), 422, json!({
            "message": "Pod \"q\" is invalid: spec.containers: Required value"})),
        ("POST", PODS, json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "a"}]}}), 422, json!({
            "message": "Pod \"q\" is invalid: spec.containers[0].image: Required value"})),
        ("MERGE", "/api/v1/namespaces/default/pods/p", json!({"spec": {"restartPolicy": "Never"}}), 422, json!({
            "message": "~pod updates may not change fields other than"})),
        ("JSON", "/api/v1/namespaces/default/pods/p",
            json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "b:2"}]), 200,
            json!({"metadata": {"generation": 2}})),
        ("POST", "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}), 201, json!({
            "spec": {"type": "ClusterIP", "sessionAffinity": "None", "ports": [{"protocol": "TCP", "targetPort": 80}]}})),
        ("POST", "/api/v1/namespaces/default/services", json!({"metadata": {"name": "t"}, "spec": {}}), 422, NULL),
        ("POST", "/api/v1/namespaces/default/secrets",
            json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}}), 201,
            json!({"type": "Opaque", "data": {"a": "Yg=="}, "stringData": null})),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_node_goes_at_once() {
    let api = Api::new();
    api.ok("POST", PODS, pod("p")).await;
    let gone = api.ok("DELETE", &format!("{PODS}/p"), NULL).await;
    assert_eq!(gone["kind"], "Pod");
    assert_eq!(api.code("GET", &format!("{PODS}/p")).await, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_waits_for_it() {
    let api = Api::new();
    let path = format!("{PODS}/p");
    api.ok("POST", PODS, pod("p")).await;
    api.ok(
        "POST",
        &format!("{path}/binding"),
        json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
    )
    .await;
    let again = api
        .call("POST", &format!("{path}/binding"), json!({"metadata": {"name": "p"}, "target": {"name": "m"}}))
        .await;
    assert_eq!(again.code, 409);
    let placed = api.ok("GET", &path, NULL).await;
    assert_eq!(placed["spec"]["nodeName"], "n");
    assert_eq!(placed["status"]["conditions"][0]["type"], "PodScheduled");

    let kept = api.ok("DELETE", &path, NULL).await;
    assert_eq!(kept["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 30);
    let same = api.ok("DELETE", &path, NULL).await;
    assert_eq!(same, kept);
    let shorter = api.ok("DELETE", &format!("{path}?gracePeriodSeconds=5"), NULL).await;
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
    // The node reports while it ends the pod.
    api.ok("MERGE", &format!("{path}/status"), json!({"status": {"phase": "Failed"}})).await;
    api.ok("DELETE", &path, json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(api.code("GET", &path).await, 404);
}

#[tokio::test(start_paused = true)]
async fn a_tracked_pod_needs_both_its_node_and_its_tracker() {
    let api = Api::new();
    let path = format!("{PODS}/p");
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["example.com/track"]);
    api.ok("POST", PODS, body).await;
    api.ok("POST", &format!("{path}/binding"), json!({"metadata": {"name": "p"}, "target": {"name": "n"}}))
        .await;
    api.ok("DELETE", &path, NULL).await;
    let kept = api.ok("DELETE", &path, json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 0);
    api.ok("MERGE", &path, json!({"metadata": {"finalizers": []}})).await;
    assert_eq!(api.code("GET", &path).await, 404);
}

#[tokio::test(start_paused = true)]
async fn eviction_is_deletion() {
    let api = Api::new();
    api.ok("POST", PODS, pod("p")).await;
    let body = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}});
    assert_eq!(api.call("POST", &format!("{PODS}/p/eviction"), body).await.code, 201);
    assert_eq!(api.code("GET", &format!("{PODS}/p")).await, 404);
}
