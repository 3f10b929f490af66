//! Custom resources: definitions, schemas, versions, scale.

use serde_json::{Value, json};

use crate::harness::{Api, CRDS, WIDGETS, widget, widgets};

const NULL: Value = Value::Null;
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/w";

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_at_once() {
    let api = Api::new();
    let made = api.ok("POST", CRDS, widgets()).await;
    assert_eq!(made["status"]["conditions"], NULL, "nobody looked at its names yet: {made}");
    let made = api.ok("GET", &format!("{CRDS}/widgets.example.com"), NULL).await;
    let conditions = made["status"]["conditions"].as_array().unwrap();
    for kind in ["NamesAccepted", "Established"] {
        assert!(conditions.iter().any(|c| c["type"] == kind && c["status"] == "True"), "{made}");
    }
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let list = api.ok("GET", WIDGETS, NULL).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("WidgetList"), &json!("example.com/v1")));
}

#[tokio::test(start_paused = true)]
async fn bad_definitions_are_refused() {
    let api = Api::new();
    let with = |path: &str, value: Value| {
        let mut crd = widgets();
        *crd.pointer_mut(path).unwrap() = value;
        crd
    };
    for (crd, message) in [
        (with("/metadata/name", json!("gadgets.example.com")), "must be spec.names.plural"),
        (with("/spec/scope", json!("Galaxy")), "spec.scope"),
        (with("/spec/versions/0/storage", json!(false)), "exactly one version"),
        (with("/spec/versions/0/schema", json!({})), "schema.openAPIV3Schema: Required value"),
        (with("/spec/versions/0/schema/openAPIV3Schema", json!({"properties": {}})), "openAPIV3Schema"),
    ] {
        let reply = api.call("POST", CRDS, crd).await;
        assert_eq!(reply.code, 422, "{}", reply.text);
        assert!(reply.text.contains(message), "{message}: {}", reply.text);
    }
}

/// Each of these rules is within the limits of one. Nobody else's large request is served while they are parsed.
#[tokio::test(start_paused = true)]
async fn rules_that_are_long_together_are_refused() {
    let api = Api::new();
    let mut crd = widgets();
    let rule = json!({"rule": format!("{}true", "self.replicas > 0 || ".repeat(600)), "message": "m"});
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["x-kubernetes-validations"] = vec![rule; 30].into();
    let reply = api.call("POST", CRDS, crd).await;
    assert_eq!(reply.code, 422, "{}", reply.text);
    let message = "have 378120 bytes in all, more than 262144";
    assert!(reply.text.contains(message), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn objects_follow_their_schema() {
    let api = Api::new();
    api.define_widgets().await;
    let bad = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    api.rows(&[
        (
            "POST",
            WIDGETS,
            bad(json!({"replicas": -1})),
            422,
            json!({"reason": "Invalid",
            "message": "~Widget.example.com \"w\" is invalid: [spec.replicas: Invalid value: -1",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec.replicas"}, {"field": ".spec.replicas"}]}}),
        ),
        ("POST", WIDGETS, bad(json!({"replicas": "x"})), 422, NULL),
        ("POST", WIDGETS, json!({"metadata": {"name": "w"}}), 400, NULL),
        (
            "POST",
            "/apis/example.com/v1/namespaces/default/widgets?fieldValidation=Strict",
            bad(json!({"x": 1})),
            400,
            json!({"message": "~strict decoding error: unknown field \"spec.x\""}),
        ),
        ("POST", WIDGETS, bad(json!({"x": 1})), 201, json!({"spec": {"x": null, "replicas": 1}})),
        (
            "PUT",
            WIDGET,
            bad(json!({})),
            422,
            json!({"message": "~metadata.resourceVersion: Invalid value: 0"}),
        ),
        ("MERGE", WIDGET, json!({"spec": {"replicas": -1}}), 422, NULL),
    ])
    .await;
    let path = format!("{WIDGETS}?fieldValidation=Warn");
    let mut unknown = widget("w2");
    unknown["spec"]["x"] = json!(1);
    let warned = api.call("POST", &path, unknown.clone()).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.x\\\"\"");
    unknown["metadata"]["name"] = json!("w3");
    let ignored = api.call("POST", &format!("{WIDGETS}?fieldValidation=Ignore"), unknown).await;
    assert!(ignored.code == 201 && !ignored.headers.contains_key("warning"));
}

#[tokio::test(start_paused = true)]
async fn a_schema_changes_live() {
    let api = Api::new();
    api.define_widgets().await;
    let path = format!("{CRDS}/widgets.example.com");
    let schema = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x",
        "value": {"type": "integer"}}]);
    api.ok("JSON", &path, schema).await;
    let mut body = widget("w");
    body["spec"]["x"] = json!(7);
    assert_eq!(api.ok("POST", WIDGETS, body).await["spec"]["x"], 7);
    // Objects that are there follow when they are read: they get new defaults and lose what is no longer known.
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let schema = json!([
        {"op": "remove", "path": format!("{properties}/x")},
        {"op": "add", "path": format!("{properties}/y"), "value": {"type": "integer", "default": 3}},
    ]);
    api.ok("JSON", &path, schema).await;
    let expected = json!({"image": "a", "replicas": 1, "y": 3});
    assert_eq!(api.ok("GET", WIDGET, NULL).await["spec"], expected);
    assert_eq!(api.ok("GET", WIDGETS, NULL).await["items"][0]["spec"], expected);
    assert_eq!(api.ok("MERGE", WIDGET, json!({"spec": {"image": "b"}})).await["spec"]["y"], 3);
}

#[tokio::test(start_paused = true)]
async fn versions_differ_in_name_only() {
    let api = Api::new();
    let mut crd = widgets();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    api.ok("POST", CRDS, crd).await;
    let old = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let mut body = widget("w");
    body["apiVersion"] = json!("example.com/v1beta1");
    assert_eq!(api.ok("POST", old, body).await["apiVersion"], "example.com/v1beta1");
    assert_eq!(api.ok("GET", WIDGET, NULL).await["apiVersion"], "example.com/v1");
    let mut watch = api.watch(&format!("{old}?watch=true")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "example.com/v1beta1");
    api.ok("MERGE", WIDGET, json!({"spec": {"replicas": 2}})).await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("MODIFIED"), &json!("example.com/v1beta1"))
    );
    let list = api.ok("GET", old, NULL).await;
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn scale_stands_for_replicas() {
    let api = Api::new();
    api.define_widgets().await;
    api.ok("POST", WIDGETS, widget("w")).await;
    api.ok("MERGE", &format!("{WIDGET}/status"), json!({"status": {"replicas": 1}})).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets/w/scale";
    api.rows(&[
        ("GET", path, NULL, 200, json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "w", "namespace": "default"}, "spec": {"replicas": 1}, "status": {"replicas": 1}})),
        ("MERGE", path, json!({"spec": {"replicas": 3}}), 200, json!({"spec": {"replicas": 3}})),
        ("GET", WIDGET, NULL, 200, json!({"spec": {"replicas": 3}, "metadata": {"generation": 2}})),
        ("PUT", path, json!({"metadata": {"name": "w", "resourceVersion": "1"}, "spec": {"replicas": 4}}), 409, NULL),
        ("PUT", path, json!({"metadata": {"name": "w"}, "spec": {"replicas": 4}}), 200, json!({"spec": {"replicas": 4}})),
        ("PUT", path, json!({"metadata": {"name": "w"}, "spec": {"replicas": -4}}), 422, NULL),
        ("GET", "/apis/example.com/v1/namespaces/default/widgets/none/scale", NULL, 404, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let api = Api::new();
    api.define_widgets().await;
    let mut held = widget("w");
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    api.ok("POST", WIDGETS, held).await;
    api.ok("POST", WIDGETS, widget("free")).await;
    let mut watch = api.watch(&format!("{WIDGETS}?watch=true&fieldSelector=metadata.name%3Dw")).await;
    let path = format!("{CRDS}/widgets.example.com");
    let going = api.ok("DELETE", &path, NULL).await;
    assert!(going["status"]["conditions"].to_string().contains("Terminating"), "{going}");
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{WIDGETS}/free")).await, 404);
    assert_eq!(api.call("POST", WIDGETS, widget("new")).await.code, 403);
    assert_eq!(api.code("GET", &path).await, 200);
    api.ok("MERGE", WIDGET, json!({"metadata": {"finalizers": []}})).await;
    api.settle().await;
    assert_eq!(api.code("GET", &path).await, 404);
    assert_eq!(api.code("GET", WIDGETS).await, 404);
    assert_eq!(watch.brief().await, "ADDED w");
    assert_eq!(watch.brief().await, "MODIFIED w");
    assert_eq!(watch.brief().await, "DELETED w");
    assert_eq!(watch.brief().await, "END");
    // And it can come back.
    api.define_widgets().await;
    assert_eq!(api.ok("GET", WIDGETS, NULL).await["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_kind_belongs_to_one_definition() {
    let api = Api::new();
    api.define_widgets().await;
    let mut other = widgets();
    other["metadata"]["name"] = json!("wodgets.example.com");
    other["spec"]["names"] = json!({"plural": "wodgets", "kind": "Widget"});
    api.ok("POST", CRDS, other).await;
    let made = api.ok("GET", &format!("{CRDS}/wodgets.example.com"), NULL).await;
    for condition in made["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["status"], "False", "{condition}");
    }
    assert_eq!(api.code("GET", "/apis/example.com/v1/wodgets").await, 404);
    assert_eq!(api.code("GET", WIDGETS).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_deprecated_version_says_what_to_use() {
    let api = Api::new();
    let mut definition = widgets();
    let mut old = definition["spec"]["versions"][0].clone();
    old["name"] = json!("v1beta1");
    old["storage"] = json!(false);
    old["deprecated"] = json!(true);
    let mut older = old.clone();
    older["name"] = json!("v1alpha1");
    older["deprecationWarning"] = json!("really \"old\"");
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    versions.extend([old, older]);
    api.ok("POST", CRDS, definition).await;
    let warning = async |version: &str| {
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let headers = api.call("GET", &path, Value::Null).await.headers;
        headers.get("warning").map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(warning("v1").await, None);
    let expected = "299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\"";
    assert_eq!(warning("v1beta1").await.as_deref(), Some(expected));
    assert_eq!(warning("v1alpha1").await.as_deref(), Some("299 - \"really \\\"old\\\"\""));
}
