//! Lists: order, pages, selectors, revisions.

use serde_json::{Value, json};
use trainyard_apiserver::Server;

use crate::harness::{Api, MAPS, PODS, clock, map, pod, rv};

const NULL: Value = Value::Null;

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect()
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_revision() {
    let api = Api::new();
    for name in ["e", "a", "c", "b", "d"] {
        api.ok("POST", MAPS, map(name)).await;
    }
    let first = api.ok("GET", &format!("{MAPS}?&limit=2"), NULL).await;
    assert_eq!((names(&first), &first["kind"]), (vec!["a", "b"], &json!("ConfigMapList")));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);

    api.ok("POST", MAPS, map("bb")).await;
    api.ok("DELETE", &format!("{MAPS}/c"), NULL).await;
    api.ok("MERGE", &format!("{MAPS}/d"), json!({"data": {"new": "1"}})).await;

    let second = api.ok("GET", &format!("{MAPS}?limit=2&continue={}", token(&first)), NULL).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["data"], NULL);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(rv(&second), rv(&first));
    let third = api.ok("GET", &format!("{MAPS}?limit=2&continue={}", token(&second)), NULL).await;
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"]["continue"], NULL);

    let exact = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", rv(&first));
    assert_eq!(names(&api.ok("GET", &exact, NULL).await), ["a", "b", "c", "d", "e"]);
    assert_eq!(names(&api.ok("GET", MAPS, NULL).await), ["a", "b", "bb", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fell_out_of_history_can_be_continued_inconsistently() {
    let api = Api::with(Server::options().clock(clock()).history(2));
    for name in ["a", "b", "c"] {
        api.ok("POST", MAPS, map(name)).await;
    }
    let first = api.ok("GET", &format!("{MAPS}?limit=1"), NULL).await;
    for name in ["d", "e", "f"] {
        api.ok("POST", MAPS, map(name)).await;
    }
    let reply = api.call("GET", &format!("{MAPS}?limit=9&continue={}", token(&first)), NULL).await;
    assert_eq!(reply.code, 410);
    let status = reply.json();
    assert_eq!(status["reason"], "Expired");
    let rest = api.ok("GET", &format!("{MAPS}?limit=9&continue={}", token(&status)), NULL).await;
    assert_eq!(names(&rest), ["b", "c", "d", "e", "f"]);
    let old = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", rv(&first));
    assert_eq!(api.code("GET", &old).await, 410);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose() {
    let api = Api::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"app": app});
        api.ok("POST", PODS, pod).await;
    }
    api.ok(
        "POST",
        &format!("{PODS}/c/binding"),
        json!({"metadata": {"name": "c"}, "target": {"name": "n1"}}),
    )
    .await;
    for (query, expected) in [
        ("labelSelector=app%3Dx", vec!["a", "c", "d"]),
        ("labelSelector=app!=x", vec!["b"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.namespace=default,metadata.name!=b", vec!["a", "c", "d"]),
        ("fieldSelector=spec.nodeName=n1", vec!["c"]),
        ("fieldSelector=spec.nodeName=", vec!["a", "b", "d"]),
        ("fieldSelector=status.phase%3DPending", vec!["a", "b", "c", "d"]),
        ("labelSelector=app%3Dx&fieldSelector=spec.nodeName=", vec!["a", "d"]),
    ] {
        let list = api.ok("GET", &format!("{PODS}?{query}"), NULL).await;
        assert_eq!(names(&list), expected, "{query}");
    }
    let first = api.ok("GET", &format!("{PODS}?labelSelector=app%3Dx&limit=2"), NULL).await;
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(first["metadata"]["remainingItemCount"], NULL);
    let rest = format!("{PODS}?labelSelector=app%3Dx&limit=2&continue={}", token(&first));
    assert_eq!(names(&api.ok("GET", &rest, NULL).await), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn bad_list_options_are_refused() {
    let api = Api::new();
    api.rows(&[
        (
            "GET",
            "/api/v1/pods?fieldSelector=spec.foo%3Dx",
            NULL,
            400,
            json!({"message": "~field label not supported: spec.foo"}),
        ),
        ("GET", "/api/v1/pods?labelSelector=%21%21", NULL, 400, NULL),
        ("GET", "/api/v1/pods?limit=x", NULL, 400, NULL),
        ("GET", "/api/v1/pods?continue=x", NULL, 400, NULL),
        ("GET", "/api/v1/pods?resourceVersion=x", NULL, 400, NULL),
        ("GET", "/api/v1/pods?resourceVersionMatch=Exact", NULL, 422, NULL),
        ("GET", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Soon", NULL, 422, NULL),
        (
            "GET",
            "/api/v1/pods?resourceVersion=9999",
            NULL,
            504,
            json!({"reason": "Timeout",
            "message": "~Too large resource version: 9999", "details": {"retryAfterSeconds": 1}}),
        ),
        ("GET", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=NotOlderThan", NULL, 200, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_namespaces_are_listed_together() {
    let api = Api::new();
    api.ok("POST", "/api/v1/namespaces", map("zoo")).await;
    api.ok("POST", "/api/v1/namespaces/zoo/configmaps", map("a")).await;
    api.ok("POST", MAPS, map("b")).await;
    assert_eq!(names(&api.ok("GET", "/api/v1/configmaps", NULL).await), ["b", "a"]);
    assert_eq!(names(&api.ok("GET", "/api/v1/namespaces/zoo/configmaps", NULL).await), ["a"]);
    let namespaces = api.ok("GET", "/api/v1/namespaces", NULL).await;
    assert_eq!(names(&namespaces), ["default", "kube-node-lease", "kube-public", "kube-system", "zoo"]);
}
