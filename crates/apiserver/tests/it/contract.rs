//! Create, read, replace, delete and their errors, as rows.

use serde_json::{Value, json};

use crate::harness::{Api, MAPS, PODS, map, pod, rv};

const NULL: Value = Value::Null;

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_and_deleted() {
    let api = Api::new();
    api.rows(&[
        ("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}}), 201, json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"},
            "metadata": {"name": "a", "namespace": "default", "uid": "*", "resourceVersion": "*",
                "creationTimestamp": "2026-01-01T00:00:00Z", "generation": null},
        })),
        ("GET", "/api/v1/namespaces/default/configmaps/a", NULL, 200, json!({"data": {"k": "v"}})),
        ("POST", MAPS, map("a"), 409, json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409,
            "reason": "AlreadyExists", "message": "configmaps \"a\" already exists",
            "details": {"name": "a", "kind": "configmaps"},
        })),
        ("GET", "/api/v1/namespaces/default/configmaps/b", NULL, 404, json!({
            "reason": "NotFound", "message": "configmaps \"b\" not found", "details": {"name": "b", "kind": "configmaps"},
        })),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a", NULL, 200, json!({
            "kind": "Status", "status": "Success", "details": {"name": "a", "kind": "configmaps", "uid": "*"},
        })),
        ("GET", "/api/v1/namespaces/default/configmaps/a", NULL, 404, NULL),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a", NULL, 404, json!({"reason": "NotFound"})),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_not_found() {
    let api = Api::new();
    let page = json!("404 page not found\n");
    let none = json!({"message": "the server could not find the requested resource", "details": {}});
    api.rows(&[
        ("GET", "/logs", NULL, 404, page.clone()),
        ("GET", "/api/v1/gadgets", NULL, 404, none.clone()),
        ("GET", "/apis/example.com/v1/widgets", NULL, 404, page),
        ("GET", "/api/v1/pods/a", NULL, 404, none.clone()),
        ("GET", "/api/v1/namespaces/default/nodes", NULL, 404, none.clone()),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", NULL, 404, none.clone()),
        ("GET", "/api/v1/namespaces/default/pods/a/nothing", NULL, 404, none),
        ("POST", "/api/v1/pods", pod("a"), 405, json!({"reason": "MethodNotAllowed"})),
        ("PUT", PODS, pod("a"), 405, NULL),
        ("POST", "/api/v1/namespaces/default/pods/a", pod("a"), 405, NULL),
        ("PROTOBUF", PODS, pod("a"), 400, json!({"reason": "BadRequest"})),
        (
            "APPLY",
            "/api/v1/namespaces/default/pods/a",
            pod("a"),
            422,
            json!({"message": "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"}),
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn bad_objects_are_refused() {
    let api = Api::new();
    let labels = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
    api.rows(&[
        ("POST", MAPS, json!([]), 400, json!({"reason": "BadRequest"})),
        ("POST", MAPS, json!({"metadata": {"name": 1}}), 400, NULL),
        ("POST", MAPS, json!({"metadata": []}), 400, NULL),
        ("POST", MAPS, json!({"kind": "Pod", "metadata": {"name": "a"}}), 400, NULL),
        ("POST", MAPS, json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400, json!({
            "message": "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/runtime/scheme.go:111\""})),
        ("POST", MAPS, json!({"metadata": {"name": "a", "namespace": "b"}}), 400, json!({
            "message": "the namespace of the provided object does not match the namespace sent on the request"})),
        ("POST", MAPS, json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 500, NULL),
        ("POST", MAPS, json!({"metadata": {}}), 422, json!({"reason": "Invalid", "details": {"causes": [
            {"reason": "FieldValueRequired", "field": "metadata.name",
             "message": "Required value: name or generateName is required"}]}})),
        ("POST", MAPS, map("A_b"), 422, json!({"message": "~ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain"})),
        ("POST", MAPS, labels(json!({"a": "b c"})), 422, json!({"message": "~a valid label must be an empty string"})),
        ("POST", MAPS, labels(json!({"a/b/c": "b"})), 422, json!({"message": "~a valid label key must consist"})),
        ("POST", MAPS, labels(json!({"a": 1})), 400, NULL),
        ("POST", "/api/v1/namespaces/nowhere/configmaps", map("a"), 404, json!({
            "message": "namespaces \"nowhere\" not found"})),
        ("POST", "/api/v1/namespaces/default/services", json!({"metadata": {"name": "a.b"}, "spec": {"clusterIP": "None"}}),
            422, json!({"message": "~must not contain dots"})),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", map("system:a"), 201, NULL),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=Some", map("a"), 422, NULL),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", map("dry"), 201, json!({"metadata": {"name": "dry"}})),
        ("GET", "/api/v1/namespaces/default/configmaps/dry", NULL, 404, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn names_are_generated() {
    let api = Api::new();
    let made = api.ok("POST", MAPS, json!({"metadata": {"generateName": "run-"}})).await;
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("run-") && name.len() == 9, "{name}");
}

#[tokio::test(start_paused = true)]
async fn replacing_needs_the_latest_version() {
    let api = Api::new();
    let path = format!("{MAPS}/a");
    let first = api.ok("POST", MAPS, map("a")).await;
    let mut second = first.clone();
    second["data"] = json!({"k": "1"});
    let second = api.ok("PUT", &path, second).await;
    assert!(rv(&second) > rv(&first));

    let mut late = first.clone();
    late["data"] = json!({"k": "2"});
    let reply = api.call("PUT", &path, late).await;
    assert_eq!(reply.code, 409);
    assert_eq!(
        reply.json()["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );

    // The same again is no new version.
    assert_eq!(rv(&api.ok("PUT", &path, second.clone()).await), rv(&second));

    let mut other = second.clone();
    other["metadata"]["uid"] = json!("another");
    assert_eq!(api.call("PUT", &path, other).await.code, 409);
    let mut renamed = second.clone();
    renamed["metadata"]["name"] = json!("b");
    assert_eq!(api.call("PUT", &path, renamed).await.code, 400);
    let mut backdated = second.clone();
    backdated["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let kept = api.ok("PUT", &path, backdated).await;
    assert_eq!(kept["metadata"]["creationTimestamp"], second["metadata"]["creationTimestamp"]);
    assert_eq!(api.call("PUT", &format!("{MAPS}/new"), map("new")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn deletion_has_preconditions_and_waits_for_finalizers() {
    let api = Api::new();
    let path = format!("{MAPS}/a");
    let made =
        api.ok("POST", MAPS, json!({"metadata": {"name": "a", "finalizers": ["example.com/keep"]}})).await;
    let options = |uid: &Value| json!({"preconditions": {"uid": uid}});
    let reply = api.call("DELETE", &path, options(&json!("another"))).await;
    assert_eq!(reply.code, 409, "{}", reply.text);
    let kept = api.ok("DELETE", &path, options(&made["metadata"]["uid"])).await;
    assert_eq!(kept["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");

    let mut more = kept.clone();
    more["metadata"]["finalizers"] = json!(["example.com/keep", "example.com/more"]);
    let reply = api.call("PUT", &path, more).await;
    assert_eq!(reply.code, 422);
    assert!(reply.text.contains("no new finalizers can be added"), "{}", reply.text);

    api.ok("MERGE", &path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(api.code("GET", &path).await, 404);
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    let api = Api::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.ok("POST", MAPS, json!({"metadata": {"name": name, "labels": {"app": app}}})).await;
    }
    let deleted = api.ok("DELETE", &format!("{MAPS}?labelSelector=app%3Dx"), NULL).await;
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = api.ok("GET", MAPS, NULL).await;
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_api_describes_itself() {
    let api = Api::new();
    api.define_widgets().await;
    api.rows(&[
        ("GET", "/livez", NULL, 200, json!("ok")),
        ("GET", "/readyz", NULL, 200, json!("ok")),
        ("GET", "/version", NULL, 200, json!({"major": "1"})),
        ("GET", "/api", NULL, 200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("GET", "/apis/example.com", NULL, 200, json!({
            "kind": "APIGroup", "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}})),
        ("GET", "/apis/example.com/v1", NULL, 200, json!({"kind": "APIResourceList", "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": true, "shortNames": ["wd"], "singularName": "widget"},
            {"name": "widgets/status"}, {"name": "widgets/scale", "kind": "Scale", "group": "autoscaling"}]})),
        ("GET", "/apis/nothing.io", NULL, 404, NULL),
    ])
    .await;
    let groups = api.ok("GET", "/apis", NULL).await;
    assert!(groups["groups"].as_array().unwrap().iter().any(|g| g["name"] == "coordination.k8s.io"));
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded() {
    let api = Api::new();
    let big = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(3 * 1024 * 1024)}});
    assert_eq!(api.call("POST", MAPS, big).await.code, 413);
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!({"a": deep});
    }
    assert_eq!(api.call("POST", MAPS, json!({"metadata": {"name": "a"}, "data": deep})).await.code, 400);
    let request = http::Request::post(MAPS).body("[".repeat(100_000).into()).unwrap();
    assert_eq!(api.send(request).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn yaml_and_metadata_only_are_understood() {
    let api = Api::new();
    let request = http::Request::post(MAPS)
        .header("content-type", "application/yaml")
        .body("metadata:\n  name: a\ndata:\n  k: v\n".into())
        .unwrap();
    assert_eq!(api.send(request).await.code, 201);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = http::Request::get(format!("{MAPS}/a")).header("accept", accept).body("".into()).unwrap();
    let reply = api.send(request).await.json();
    assert_eq!(reply["kind"], "PartialObjectMetadata");
    assert_eq!(reply["data"], NULL);
    let request = http::Request::get(MAPS).header("accept", "application/cbor").body("".into());
    assert_eq!(api.send(request.unwrap()).await.code, 406);
}

#[tokio::test(start_paused = true)]
async fn both_event_apis_show_one_object() {
    let api = Api::new();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    api.ok(
        "POST",
        events,
        json!({
            "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "text",
            "reportingController": "me", "reportingInstance": "me-1", "action": "Looking", "reason": "Because",
            "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        }),
    )
    .await;
    api.rows(&[
        ("GET", "/api/v1/namespaces/default/events/e", NULL, 200, json!({
            "apiVersion": "v1", "involvedObject": {"name": "p"}, "message": "text", "reportingComponent": "me", "note": null})),
        ("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e", NULL, 200, json!({
            "apiVersion": "events.k8s.io/v1", "regarding": {"name": "p"}, "note": "text", "message": null})),
        ("MERGE", "/apis/events.k8s.io/v1/namespaces/default/events/e", json!({"note": "new", "series": {"count": 1}}), 422,
            json!({"details": {"causes": [{"field": "series.count"}, {"field": "series.lastObservedTime"}, {"field": "message"}]}})),
        ("MERGE", "/apis/events.k8s.io/v1/namespaces/default/events/e",
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}), 200, json!({"note": "text"})),
        ("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp,reason=Because", NULL, 200,
            json!({"items": [{"message": "text", "series": {"count": 2}}]})),
    ])
    .await;
}
