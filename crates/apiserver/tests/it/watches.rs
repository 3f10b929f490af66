//! Watches: what is sent, in which order, and how they end.

use serde_json::{Value, json};
use std::time::Duration;
use trainyard_apiserver::Server;
use trainyard_apiserver::store::history::History;

use crate::harness::{Api, MAPS, clock, map, rv};

const NULL: Value = Value::Null;

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_a_list_ended() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a")).await;
    let list = api.ok("GET", MAPS, NULL).await;
    let mut watch = api.watch(&format!("{MAPS}?watch=true&resourceVersion={}", rv(&list))).await;
    api.ok("POST", MAPS, map("b")).await;
    api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await;
    api.ok("POST", "/api/v1/namespaces/kube-system/configmaps", map("elsewhere")).await;
    let last = api.ok("GET", &format!("{MAPS}/a"), NULL).await;
    api.ok("DELETE", &format!("{MAPS}/a"), NULL).await;
    assert_eq!(watch.brief().await, "ADDED b");
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &last));
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert!(rv(&event["object"]) > rv(&last));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_nowhere_begins_with_what_is_there() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a")).await;
    for query in ["watch=true", "watch=1&resourceVersion=0", "watch=true&resourceVersion="] {
        let mut watch = api.watch(&format!("{MAPS}?{query}")).await;
        assert_eq!(watch.brief().await, "ADDED a", "{query}");
    }
    let mut one = api.watch("/api/v1/watch/namespaces/default/configmaps/b").await;
    api.ok("POST", MAPS, map("b")).await;
    assert_eq!(one.brief().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_says_where_it_ends() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a")).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = api.watch(&format!("{MAPS}?{query}&timeoutSeconds=90")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let made = api.ok("POST", MAPS, map("b")).await;
    assert!(rv(&end["object"]) < rv(&made));
    assert_eq!(watch.brief().await, "ADDED b");
    // One after a minute, one before the end.
    for _ in 0..2 {
        let mark = watch.next().await.unwrap();
        assert_eq!((&mark["type"], rv(&mark["object"])), (&json!("BOOKMARK"), rv(&made)));
    }
    assert_eq!(watch.brief().await, "END");
    let refused = api.call("GET", &format!("{MAPS}?watch=true&sendInitialEvents=true"), NULL).await;
    assert_eq!(refused.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_selecting_watch_sees_objects_come_and_go() {
    let api = Api::new();
    let mut watch = api.watch(&format!("{MAPS}?watch=true&labelSelector=app%3Dx")).await;
    let path = format!("{MAPS}/a");
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    api.ok("POST", MAPS, map("a")).await;
    api.ok("MERGE", &path, label("x")).await;
    api.ok("MERGE", &path, json!({"data": {"k": "v"}})).await;
    let left = api.ok("MERGE", &path, label("y")).await;
    api.ok("DELETE", &path, NULL).await;
    api.ok("POST", MAPS, json!({"metadata": {"name": "b", "labels": {"app": "x"}}})).await;
    api.ok("DELETE", &format!("{MAPS}/b"), NULL).await;
    assert_eq!(watch.brief().await, "ADDED a");
    assert_eq!(watch.brief().await, "MODIFIED a");
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(rv(&event["object"]), rv(&left));
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(watch.brief().await, "DELETED b");
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_is_told() {
    let api = Api::with(Server::options().clock(clock()).history(3));
    let first = api.ok("POST", MAPS, map("a")).await;
    let mut slow = api.watch(&format!("{MAPS}?watch=true&resourceVersion={}", rv(&first))).await;
    for name in ["b", "c", "d", "e"] {
        api.ok("POST", MAPS, map(name)).await;
    }
    let event = slow.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(slow.brief().await, "END");
    let mut late = api.watch(&format!("{MAPS}?watch=true&resourceVersion={}", rv(&first))).await;
    let status = late.next().await.unwrap()["object"].take();
    let floor = rv(&first) + 1;
    let message = format!("too old resource version: {} ({floor})", rv(&first));
    assert_eq!((&status["code"], &status["message"]), (&json!(410), &json!(message)));
    assert_eq!(late.brief().await, "END");
}

/// Large objects take no more of the past than small ones: what is kept is counted in bytes.
#[tokio::test(start_paused = true)]
async fn the_past_has_a_size_and_an_age() {
    let history = History { bytes: 1 << 20, age: Duration::from_secs(60), ..History::default() };
    let api = Api::with(Server::options().clock(clock()).history(history));
    let first = api.ok("POST", MAPS, map("a")).await;
    let since = |object: &Value| format!("{MAPS}?watch=true&resourceVersion={}", rv(object));
    // Many small events are kept.
    for n in 0..50 {
        api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": n.to_string()}})).await;
    }
    assert_eq!(api.watch(&since(&first)).await.brief().await, "MODIFIED a");
    // A few large ones are not, and those before them go as well.
    let mut last = first.clone();
    for n in 0..10 {
        let text = n.to_string().repeat(200_000);
        last = api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": text}})).await;
    }
    assert_eq!(api.watch(&since(&first)).await.brief().await, "ERROR");
    let next = api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": "x"}})).await;
    assert_eq!(api.watch(&since(&last)).await.brief().await, "MODIFIED a");
    // Time does the same, at the next write.
    tokio::time::sleep(Duration::from_secs(300)).await;
    let late = api.ok("POST", MAPS, map("b")).await;
    assert_eq!(api.watch(&since(&last)).await.brief().await, "ERROR");
    assert_eq!(api.watch(&since(&next)).await.brief().await, "ADDED b");
    assert!(rv(&late) > rv(&next));
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_time_and_with_the_server() {
    let api = Api::new();
    let mut watch = api.watch(&format!("{MAPS}?watch=true&timeoutSeconds=5")).await;
    let start = tokio::time::Instant::now();
    assert_eq!(watch.brief().await, "END");
    assert_eq!(start.elapsed().as_secs(), 5);
    let mut watch = api.watch(&format!("{MAPS}?watch=true&timeoutSeconds=18446744073709551615")).await;
    api.server.shutdown().await;
    assert_eq!(watch.brief().await, "END");
}

#[tokio::test(start_paused = true)]
async fn a_revision_to_come_is_waited_for() {
    let api = Api::new();
    let next = api.server.stats().revision + 1;
    let path = format!("{MAPS}?resourceVersion={next}&resourceVersionMatch=NotOlderThan");
    let (list, made) = tokio::join!(api.ok("GET", &path, NULL), api.ok("POST", MAPS, map("a")));
    assert_eq!(rv(&made), next);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}
