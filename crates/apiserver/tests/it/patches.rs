//! Patches, the status subresource, generations.

use serde_json::{Value, json};
use std::sync::Arc;

use crate::harness::{Api, MAPS, PODS, WIDGETS, map, pod, rv, widget};

const NULL: Value = Value::Null;

#[tokio::test(start_paused = true)]
async fn patches_change_what_they_say() {
    let api = Api::new();
    api.ok("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}})).await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    api.rows(&[
        (
            "MERGE",
            path,
            json!({"data": {"a": null, "c": "3"}}),
            200,
            json!({"data": {"a": null, "b": "2", "c": "3"}}),
        ),
        (
            "JSON",
            path,
            json!([{"op": "replace", "path": "/data/b", "value": "4"}]),
            200,
            json!({"data": {"b": "4"}}),
        ),
        (
            "JSON",
            path,
            json!([{"op": "test", "path": "/data/b", "value": "5"}]),
            422,
            json!({"reason": "Invalid"}),
        ),
        ("JSON", path, json!({"op": "test"}), 400, json!({"reason": "BadRequest"})),
        ("MERGE", path, json!([1]), 400, NULL),
        ("MERGE", path, json!({"metadata": {"resourceVersion": "1"}}), 409, json!({"reason": "Conflict"})),
        ("MERGE", path, json!({"metadata": {"name": "b"}}), 400, NULL),
        ("PATCH", path, json!({}), 415, NULL),
        ("MERGE", "/api/v1/namespaces/default/configmaps/none", json!({}), 404, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_changes_nothing_is_no_version() {
    let api = Api::new();
    let path = &format!("{MAPS}/a");
    let before = api.ok("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"b": "4"}})).await;
    let same = api.ok("MERGE", path, json!({"data": {"b": "4"}, "metadata": {"labels": {}}})).await;
    assert_eq!(before, same);
    let dry = api.ok("MERGE", &format!("{path}?dryRun=All"), json!({"data": {"b": "dry"}})).await;
    assert_eq!(dry["data"]["b"], "dry");
    assert_eq!(api.ok("GET", path, NULL).await, before);
    let changed = api.ok("MERGE", path, json!({"data": {"b": "5"}})).await;
    assert!(rv(&changed) > rv(&before));
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_are_for_built_in_kinds() {
    let api = Api::new();
    api.define_widgets().await;
    api.ok("POST", WIDGETS, widget("w")).await;
    api.ok("POST", MAPS, map("a")).await;
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(api.call("STRATEGIC", &format!("{MAPS}/a"), patch.clone()).await.code, 200);
    let reply = api.call("STRATEGIC", &format!("{WIDGETS}/w"), patch).await;
    assert_eq!(reply.code, 415);
}

#[tokio::test(start_paused = true)]
async fn status_and_the_rest_are_written_apart() {
    let api = Api::new();
    api.define_widgets().await;
    let path = format!("{WIDGETS}/w");
    let made = api.ok("POST", WIDGETS, widget("w")).await;
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&NULL, &json!(1)));

    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"image": "b"}, "status": {"phase": "Up"}});
    let status = api.ok("MERGE", &format!("{path}/status"), both.clone()).await;
    assert_eq!(status["status"]["phase"], "Up");
    assert_eq!((&status["spec"]["image"], &status["metadata"]["labels"]), (&json!("a"), &NULL));
    assert_eq!(status["metadata"]["generation"], 1);

    let mut main = both;
    main["status"]["phase"] = json!("Down");
    let main = api.ok("MERGE", &path, main).await;
    assert_eq!((&main["status"]["phase"], &main["spec"]["image"]), (&json!("Up"), &json!("b")));
    assert_eq!(main["metadata"]["generation"], 2);

    let mut put = main.clone();
    put["status"]["phase"] = json!("Done");
    let put = api.ok("PUT", &format!("{path}/status"), put).await;
    assert_eq!((&put["status"]["phase"], &put["metadata"]["generation"]), (&json!("Done"), &json!(2)));
    assert_eq!(api.call("PUT", &format!("{path}/status"), main).await.code, 409);
    let labelled = api.ok("MERGE", &path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(labelled["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_have_a_status_too() {
    let api = Api::new();
    api.ok("POST", PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let main = api.ok("MERGE", &path, json!({"status": {"phase": "Running"}})).await;
    assert_eq!(main["status"]["phase"], "Pending");
    let status = api.ok("MERGE", &format!("{path}/status"), json!({"status": {"phase": "Running"}})).await;
    assert_eq!(status["status"]["phase"], "Running");
    for (path, body) in [
        ("/api/v1/nodes", map("n")),
        ("/api/v1/namespaces", map("n")),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "n"}, "spec": {"clusterIP": "None"}}),
        ),
    ] {
        api.ok("POST", path, body).await;
        let mark = |kind: &str| {
            let time = "2026-01-01T00:00:00Z";
            json!({"status": {"conditions": [
                {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time}]}})
        };
        let patched = api.ok("MERGE", &format!("{path}/n/status"), mark("x")).await;
        assert_eq!(patched["status"]["conditions"][0]["type"], "x", "{path}");
        let main = api.ok("MERGE", &format!("{path}/n"), mark("y")).await;
        assert_eq!(main["status"]["conditions"][0]["type"], "x", "{path}");
    }
}

#[tokio::test]
async fn concurrent_patches_are_all_kept() {
    let api = Arc::new(Api::new());
    api.ok("POST", MAPS, map("a")).await;
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let api = Arc::clone(&api);
            let patch = json!({"data": {format!("k{n}"): "v"}});
            tokio::spawn(async move { api.ok("MERGE", &format!("{MAPS}/a"), patch).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let object = api.ok("GET", &format!("{MAPS}/a"), NULL).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 20);
}
