//! Server-side apply and the owners of fields. The answers are those of a real server to the same requests.

use serde_json::{Value, json};

use crate::harness::{Api, CRDS, MAPS, WIDGETS, rv, widget, widgets};

const NULL: Value = Value::Null;

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// The owners of an object: manager, operation, subresource, fields.
fn owners(object: &Value) -> Value {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let brief = |e: &Value| json!([e["manager"], e["operation"], e["subresource"], e["fieldsV1"]]);
    Value::Array(list.iter().map(brief).collect())
}

#[tokio::test(start_paused = true)]
async fn a_configuration_makes_an_object_and_takes_back_what_it_made() {
    let api = Api::new();
    let path = format!("{MAPS}/a");
    let made =
        api.call("APPLY", &format!("{path}?fieldManager=A"), map("a", json!({"x": "1", "y": "2"}))).await;
    assert_eq!(made.code, 201);
    assert_eq!(
        made.json()["metadata"]["managedFields"],
        json!([{
            "manager": "A", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}, "f:y": {}}},
        }])
    );
    let again =
        api.call("APPLY", &format!("{path}?fieldManager=A"), map("a", json!({"x": "1", "y": "2"}))).await;
    assert_eq!((again.code, rv(&again.json())), (200, rv(&made.json())), "nothing changed");
    api.ok("MERGE", &format!("{path}?fieldManager=m"), json!({"data": {"y": "3", "z": "4"}})).await;
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let less = api.ok("APPLY", &format!("{path}?fieldManager=A"), nothing).await;
    assert_eq!(less["data"], json!({"y": "3", "z": "4"}));
    assert_eq!(owners(&less), json!([["m", "Update", null, {"f:data": {"f:y": {}, "f:z": {}}}]]));
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_told_and_can_be_forced() {
    let api = Api::new();
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    api.ok("APPLY", &path("A"), map("a", json!({"x": "1", "y": "1"}))).await;
    let reply = api.call("APPLY", &path("B"), map("a", json!({"x": "2"}))).await;
    assert_eq!(
        reply.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"A\": .data.x", "reason": "Conflict",
            "details": {"causes": [
                {"reason": "FieldManagerConflict", "message": "conflict with \"A\"", "field": ".data.x"},
            ]},
        })
    );
    api.ok("MERGE", &path("u"), json!({"data": {"z": "1"}})).await;
    let reply = api.call("APPLY", &path("B"), map("a", json!({"x": "2", "y": "2", "z": "2"}))).await;
    assert_eq!(
        reply.json()["message"],
        "Apply failed with 3 conflicts: conflicts with \"A\":\n- .data.x\n- .data.y\nconflicts with \"u\" using v1:\n- \
         .data.z"
    );
    let forced =
        api.ok("APPLY", &format!("{}&force=true", path("B")), map("a", json!({"x": "2", "z": "2"}))).await;
    assert_eq!(
        owners(&forced),
        json!([
            ["A", "Apply", null, {"f:data": {"f:y": {}}}],
            ["B", "Apply", null, {"f:data": {"f:x": {}, "f:z": {}}}],
        ])
    );
}

const A: &str = "/api/v1/namespaces/default/configmaps/a?fieldManager=A";
const B: &str = "/api/v1/namespaces/default/configmaps/b?fieldManager=A";

fn config(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn message(text: &str) -> Value {
    json!({"message": text})
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_in_the_words_of_a_real_server() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a", json!({}))).await;
    let twice = config(json!({"name": "a", "finalizers": ["a/b", "a/b"]}));
    let mut unknown = map("a", json!({}));
    unknown["foo"] = json!(1);
    let typed = |why: &str| {
        let start = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
        json!({"message": format!("{start}{why}"), "reason": null})
    };
    let no_object = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array \
        into Go value of type map[string]interface {}";
    let text = typed(".data.k: expected string, got &value.valueUnstructured{Value:1}");
    let double = typed(".metadata.finalizers: duplicate entries for key [=\"a/b\"]");
    let owned = config(json!({"name": "a", "managedFields": []}));
    let kind = json!({"apiVersion": "apps/v1", "kind": "ConfigMap"});
    api.rows(&[
        ("APPLY", A, unknown, 500, typed(".foo: field not declared in schema")),
        ("APPLY", A, map("a", json!({"k": 1})), 500, text),
        ("APPLY", A, twice, 500, double),
        ("APPLY", A, owned, 400, message("metadata.managedFields must be nil")),
        ("APPLY", A, json!({}), 400, message("invalid object type: /, Kind=")),
        ("APPLY", A, kind, 400, message("invalid object type: apps/v1, Kind=ConfigMap")),
        ("APPLY", A, json!([1]), 400, message(no_object)),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_object_is_refused_in_the_words_of_a_real_server() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a", json!({}))).await;
    let another = "the name of the object (c) does not match the name on the URL (a)";
    let unnamed = "the name of the object (b based on URL) was undeterminable: name must be provided";
    let uid = "Operation cannot be fulfilled on configmaps \"b\": uid mismatch: the provided object specified uid u, \
        and no existing object was found";
    let dry = "/api/v1/namespaces/default/configmaps/b?fieldManager=A&dryRun=All";
    let old = config(json!({"name": "a", "resourceVersion": "1"}));
    api.rows(&[
        ("APPLY", A, map("c", json!({})), 400, message(another)),
        ("APPLY", A, old, 409, json!({"reason": "Conflict"})),
        ("APPLY", B, config(json!({})), 400, message(unnamed)),
        ("APPLY", B, config(json!({"name": "b", "uid": "u"})), 409, message(uid)),
        ("APPLY", dry, map("b", json!({})), 201, NULL),
        ("GET", "/api/v1/namespaces/default/configmaps/b", NULL, 404, NULL),
        ("APPLY", B, config(json!({"name": "b", "resourceVersion": "7"})), 201, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn options_are_checked() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a", json!({}))).await;
    let invalid = |why: &str| message(&format!("PatchOptions.meta.k8s.io \"\" is invalid: {why}"));
    let force = invalid("force: Forbidden: may not be specified for non-apply patch");
    let missing = invalid("fieldManager: Required value: is required for apply patch");
    let hidden =
        invalid("fieldManager: Invalid value: \"a\\x01b\": invalid character U+0001 (at position 1)");
    api.rows(&[
        ("MERGE", "/api/v1/namespaces/default/configmaps/a?force=true", json!({}), 422, force),
        ("APPLY", "/api/v1/namespaces/default/configmaps/a", json!({}), 422, missing),
        ("APPLY", "/api/v1/namespaces/default/configmaps/a?fieldManager=a%01b", json!({}), 422, hidden),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn doors_have_owners_of_their_own() {
    let api = Api::new();
    api.define_widgets().await;
    let path = format!("{WIDGETS}/a");
    let config = |rest: Value| {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let absent =
        api.call("APPLY", &format!("{path}/status?fieldManager=S"), config(json!({"status": {}}))).await;
    assert_eq!(absent.code, 404);
    api.ok("POST", &format!("{WIDGETS}?fieldManager=c"), widget("a")).await;
    let status = config(json!({"spec": {"image": "no"}, "status": {"phase": "Up"}}));
    let up = api.ok("APPLY", &format!("{path}/status?fieldManager=S"), status).await;
    assert_eq!((&up["spec"]["image"], &up["status"]["phase"]), (&json!("a"), &json!("Up")));
    assert_eq!(
        owners(&up),
        json!([
            ["S", "Apply", "status", {"f:status": {"f:phase": {}}}],
            ["c", "Update", null, {"f:spec": {".": {}, "f:image": {}, "f:replicas": {}}}],
        ])
    );
    let scale =
        api.ok("MERGE", &format!("{path}/scale?fieldManager=s"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scale["spec"], json!({"replicas": 3}));
    let scaled = api.ok("GET", &path, NULL).await;
    assert_eq!(
        owners(&scaled),
        json!([
            ["S", "Apply", "status", {"f:status": {"f:phase": {}}}],
            ["s", "Update", "scale", {"f:spec": {"f:replicas": {}}}],
            ["c", "Update", null, {"f:spec": {".": {}, "f:image": {}}}],
        ])
    );
    assert_eq!(scaled["metadata"]["managedFields"][1].get("time"), None);
    // Nobody who does not know the owners removes them by accident.
    let mut plain = scaled.clone();
    plain["metadata"].as_object_mut().unwrap().remove("managedFields");
    let kept = api.ok("PUT", &path, plain).await;
    assert_eq!(owners(&kept), owners(&scaled));
    let mut reset = scaled.clone();
    reset["metadata"]["managedFields"] = json!([]);
    assert_eq!(owners(&api.ok("PUT", &path, reset.clone()).await), owners(&scaled));
    reset["metadata"]["managedFields"] = json!([{}]);
    assert_eq!(owners(&api.ok("PUT", &path, reset).await), json!([]));
}

#[tokio::test(start_paused = true)]
async fn owners_of_several_versions() {
    let api = Api::new();
    let mut definition = widgets();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    api.ok("POST", &format!("{CRDS}?fieldManager=c"), definition).await;
    let made = api.ok("GET", &format!("{CRDS}/widgets.example.com"), NULL).await;
    let by: Vec<&Value> =
        made["metadata"]["managedFields"].as_array().unwrap().iter().map(|e| &e["manager"]).collect();
    assert_eq!(by, ["c", "kube-apiserver"], "the server owns the status");
    api.ok("POST", &format!("{WIDGETS}?fieldManager=one"), widget("a")).await;
    let other = "/apis/example.com/v2/namespaces/default/widgets/a";
    let changed =
        api.ok("MERGE", &format!("{other}?fieldManager=two"), json!({"spec": {"image": "b"}})).await;
    let list = changed["metadata"]["managedFields"].as_array().unwrap();
    let brief: Vec<Value> =
        list.iter().map(|e| json!([e["manager"], e["apiVersion"], e["fieldsV1"]])).collect();
    assert_eq!(
        json!(brief),
        json!([
            ["one", "example.com/v1", {"f:spec": {".": {}, "f:replicas": {}}}],
            ["two", "example.com/v2", {"f:spec": {"f:image": {}}}],
        ])
    );
    let config = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"image": "c"}});
    let reply = api.call("APPLY", &format!("{other}?fieldManager=A"), config).await;
    assert_eq!(
        reply.json()["message"],
        "Apply failed with 1 conflict: conflict with \"two\" using example.com/v2: .spec.image"
    );
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_writes_keep_owners_true() {
    let api = Api::new();
    let owner = api.ok("POST", MAPS, map("owner", json!({}))).await;
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let mut child = map("child", json!({"k": "v"}));
    child["metadata"]["ownerReferences"] = json!([reference]);
    api.ok("POST", &format!("{MAPS}?fieldManager=c"), child).await;
    api.ok("DELETE", &format!("{MAPS}/owner?propagationPolicy=Orphan"), NULL).await;
    api.settle().await;
    let orphan = api.ok("GET", &format!("{MAPS}/child"), NULL).await;
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
    assert_eq!(owners(&orphan), json!([["c", "Update", null, {"f:data": {".": {}, "f:k": {}}}]]));
}
