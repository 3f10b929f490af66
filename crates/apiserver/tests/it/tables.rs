//! Objects as tables and as metadata alone.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::harness::{Api, CRDS, MAPS, PODS, Reply, WIDGETS, Watch, map, pod, widget, widgets};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const WHAT_KUBECTL_SENDS: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn get(api: &Api, path: &str, accept: &str) -> Reply {
    api.send(Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap()).await
}

async fn watch(api: &Api, path: &str, accept: &str) -> Watch {
    let request = Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap();
    api.watch_with(request).await
}

fn names(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_is_one_table() {
    let api = Api::new();
    api.ok("POST", PODS, pod("a")).await;
    api.ok("POST", PODS, pod("b")).await;
    tokio::time::sleep(std::time::Duration::from_secs(125)).await;
    let reply = get(&api, &format!("{PODS}?limit=1"), WHAT_KUBECTL_SENDS).await;
    assert_eq!((reply.code, reply.headers["content-type"].to_str().unwrap()), (200, "application/json"));
    let table = reply.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert!(table["metadata"]["continue"].is_string());
    assert_eq!(
        names(&table),
        ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]
    );
    assert_eq!(table["columnDefinitions"][5]["priority"], 1);
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    let cells = json!(["a", "0/1", "Pending", "0", "2m5s", "<none>", "<none>", "<none>", "<none>"]);
    assert_eq!(table["rows"][0]["cells"], cells);
    let object = &table["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!((&object["metadata"]["name"], &object["spec"]), (&json!("a"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_row_carries_what_was_asked_for() {
    let api = Api::new();
    let created = api.ok("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    let path = format!("{MAPS}/a");
    let row = async |include: &str| {
        let table = get(&api, &format!("{path}?includeObject={include}"), TABLE).await.json();
        assert_eq!(table["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
        assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "0s"]));
        table["rows"][0]["object"].clone()
    };
    assert_eq!(row("None").await, Value::Null);
    assert_eq!(row("Object").await, created);
    assert_eq!(row("Metadata").await["metadata"], created["metadata"]);
    let older = get(&api, &path, "application/json;as=Table;v=v1beta1;g=meta.k8s.io").await.json();
    assert_eq!(older["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(older["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");

    let refused = get(&api, &format!("{path}?includeObject=Foo"), TABLE).await;
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.json()["message"],
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', \
         'None', or empty"
    );
    assert_eq!(get(&api, &path, "application/json;as=Table;v=v2;g=meta.k8s.io").await.code, 406);
    // What is not there is a failure, not a table.
    assert_eq!(get(&api, &format!("{MAPS}/b"), TABLE).await.json()["kind"], "Status");
}

#[tokio::test(start_paused = true)]
async fn a_watch_describes_the_columns_once() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a")).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = watch(&api, &format!("{MAPS}?{query}&includeObject=None"), TABLE).await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(names(&first["object"]), ["Name", "Data", "Age"]);
    assert_eq!(first["object"]["rows"][0]["object"], Value::Null);
    let mark = watch.next().await.unwrap();
    assert_eq!((&mark["type"], &mark["object"]["columnDefinitions"]), (&json!("BOOKMARK"), &Value::Null));
    let row = &mark["object"]["rows"][0];
    assert_eq!(row["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(row["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await;
    let changed = watch.next().await.unwrap();
    assert_eq!(changed["object"]["columnDefinitions"], Value::Null);
    assert_eq!(changed["object"]["rows"][0]["cells"], json!(["a", 1, "30s"]));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_leaves_the_table() {
    let api = Api::new();
    api.ok("POST", MAPS, json!({"metadata": {"name": "a", "labels": {"x": "1"}}})).await;
    let mut watch = watch(&api, &format!("{MAPS}?watch=true&labelSelector=x%3D1"), TABLE).await;
    watch.next().await.unwrap();
    let after = api.ok("MERGE", &format!("{MAPS}/a"), json!({"metadata": {"labels": {"x": "2"}}})).await;
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(gone["object"]["rows"][0]["object"]["metadata"]["labels"]["x"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_definition_names_the_columns_of_its_objects() {
    let api = Api::new();
    api.define_widgets().await;
    api.ok("POST", WIDGETS, widget("a")).await;
    let table = get(&api, WIDGETS, TABLE).await.json();
    assert_eq!(names(&table), ["Name", "Age"]);
    assert_eq!(table["columnDefinitions"][1]["type"], "date");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "0s"]));

    let mut definition = widgets();
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
        {"name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1, "description": "How many."},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ]);
    definition["metadata"]["resourceVersion"] = api
        .ok("GET", &format!("{CRDS}/widgets.example.com"), Value::Null)
        .await["metadata"]["resourceVersion"]
        .clone();
    api.ok("PUT", &format!("{CRDS}/widgets.example.com"), definition).await;
    let table = get(&api, WIDGETS, TABLE).await.json();
    assert_eq!(names(&table), ["Name", "Image", "Wanted", "Phase"]);
    assert_eq!(
        table["columnDefinitions"][1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.image"
    );
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "a", 1, null]));

    let scale = get(&api, &format!("{WIDGETS}/a/scale"), TABLE).await.json();
    assert_eq!(names(&scale), ["Name", "Desired", "Available", "Age"]);
    assert_eq!(scale["rows"][0]["cells"], json!(["a", 1, 0, "0s"]));
    // Without columns of its own an empty table has not even rows.
    assert_eq!(
        get(&api, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", TABLE).await.json()["rows"],
        Value::Null
    );
    assert_eq!(get(&api, PODS, TABLE).await.json()["rows"], json!([]));
    // A definition itself has no columns of its own.
    let table = get(&api, CRDS, TABLE).await.json();
    assert_eq!(names(&table), ["Name", "Created At"]);
    assert_eq!(table["rows"][0]["cells"], json!(["widgets.example.com", "2026-01-01T00:00:00Z"]));
}

#[tokio::test(start_paused = true)]
async fn both_event_apis_show_one_table() {
    let api = Api::new();
    let events = "/api/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"}, "type": "Normal", "reason": "Started", "message": "it did\n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "source": {"component": "node"}, "firstTimestamp": "2025-12-31T14:00:00Z", "lastTimestamp": "2025-12-31T19:00:00Z",
    });
    api.ok("POST", events, event).await;
    let cells = json!(["5h", "Normal", "Started", "pod/a", "", "node", "it did", "10h", 3, "e"]);
    for path in [events, "/apis/events.k8s.io/v1/namespaces/default/events"] {
        let table = get(&api, path, TABLE).await.json();
        assert_eq!(table["rows"][0]["cells"], cells, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_an_object_and_a_list() {
    let api = Api::new();
    let created = api.ok("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    let one = get(&api, &format!("{MAPS}/a"), PARTIAL).await.json();
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]});
    assert_eq!(one, expected);
    let all = get(&api, MAPS, PARTIAL_LIST).await.json();
    assert_eq!(all["kind"], "PartialObjectMetadataList");
    assert_eq!(all["items"], json!([expected]));
    let mut watch = watch(&api, &format!("{MAPS}?watch=true"), PARTIAL).await;
    assert_eq!(watch.next().await.unwrap()["object"], expected);
}
