//! OpenAPI documents: of built-in types, of custom ones, and how clients keep them.

use axum::body::Body;
use http::Request;
use serde_json::{Map, Value, json};

use crate::harness::{Api, CRDS, Reply};

/// Two definitions, and what kube-apiserver 1.36.3 publishes of them. Parameters are reduced to their names, and long
/// descriptions of paths are left out.
const GIZMOS: &str = include_str!("gizmos.json");

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(Request::builder().uri(path), |r, (name, value)| r.header(*name, *value));
    api.send(request.body(Body::empty()).unwrap()).await
}

async fn with_gizmos() -> (Api, Value) {
    let api = Api::new();
    let golden: Value = serde_json::from_str(GIZMOS).unwrap();
    for definition in golden["definitions"].as_array().unwrap() {
        api.ok("POST", CRDS, definition.clone()).await;
    }
    (api, golden)
}

/// A path as the golden file has it.
fn reduced(item: &Value) -> Value {
    fn shorten(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .filter(|(key, value)| {
                    *key != "description" || value.as_str().is_none_or(|text| text.chars().count() <= 80)
                })
                .map(|(key, value)| (key.clone(), shorten(value)))
                .collect(),
            Value::Array(items) => items.iter().map(shorten).collect(),
            other => other.clone(),
        }
    }
    let names = |all: &Value| all.as_array().unwrap().iter().map(|p| p["name"].clone()).collect::<Value>();
    let mut item = shorten(item);
    for (method, operation) in item.as_object_mut().unwrap() {
        if method == "parameters" {
            *operation = names(operation);
        } else if let Some(parameters) = operation.get_mut("parameters") {
            *parameters = names(parameters);
        }
    }
    item
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_published_as_a_real_server_does() {
    let (api, golden) = with_gizmos().await;
    let v1 = api.ok("GET", "/openapi/v3/apis/present.example.com/v1", Value::Null).await;
    let beta = api.ok("GET", "/openapi/v3/apis/present.example.com/v1beta1", Value::Null).await;
    for (name, expected) in golden["v3"].as_object().unwrap() {
        let document = if name.contains("v1beta1") { &beta } else { &v1 };
        assert_eq!(&document["components"]["schemas"][name], expected, "{name}");
    }
    let names: Vec<&String> = v1["components"]["schemas"].as_object().unwrap().keys().collect();
    assert_eq!(json!(names), golden["schemas"]);
    let paths: Map<String, Value> =
        v1["paths"].as_object().unwrap().iter().map(|(path, item)| (path.clone(), reduced(item))).collect();
    assert_eq!(
        paths.keys().collect::<Vec<_>>(),
        golden["paths"].as_object().unwrap().keys().collect::<Vec<_>>()
    );
    for (path, item) in &paths {
        assert_eq!(item, &golden["paths"][path], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn older_clients_see_what_they_understand() {
    let (api, golden) = with_gizmos().await;
    let document = api.ok("GET", "/openapi/v2", Value::Null).await;
    assert_eq!((&document["swagger"], &document["info"]["title"]), (&json!("2.0"), &json!("Kubernetes")));
    for (name, expected) in golden["v2"].as_object().unwrap() {
        assert_eq!(&document["definitions"][name], expected, "{name}");
    }
    let definitions = &document["definitions"];
    assert_eq!(definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"], "string");
    let spec = &definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(!document.to_string().contains("#/components/"));
    let create = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"];
    assert_eq!(create["parameters"][0]["in"], "body");
    assert_eq!(create["parameters"][0]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
    assert_eq!(create["responses"]["201"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_described_as_far_as_it_is_served() {
    let api = Api::new();
    let root = get(&api, "/openapi/v3", &[]).await.json();
    let places: Vec<&String> = root["paths"].as_object().unwrap().keys().collect();
    for place in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
        assert!(places.iter().any(|p| *p == place), "{place} in {places:?}");
    }
    let document = api.ok("GET", "/openapi/v3/apis/apps/v1", Value::Null).await;
    assert_eq!(document["info"], json!({"title": "Kubernetes", "version": "1.36"}));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"));
    assert!(!paths.keys().any(|path| path.contains("daemonsets")), "{:?}", paths.keys());
    // This is how kubectl finds out that the server validates fields.
    let patch = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(
        schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"]["enum"],
        json!(["Always", "IfNotPresent", "Never"])
    );
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "DeleteOptions"}, {"group": "apps", "version": "v1", "kind": "DeleteOptions"}])
    );
    // Nothing refers to what is not there.
    for name in document.to_string().split("#/components/schemas/").skip(1) {
        let name = name.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    assert_eq!(api.code("GET", "/openapi/v3/apis/apps/v2").await, 404);
    assert_eq!(api.code("GET", "/openapi/v3/apis/nothing.io/v1").await, 404);
}

#[tokio::test(start_paused = true)]
async fn documents_are_also_protobuf() {
    let api = Api::new();
    for (path, version, first) in
        [("/openapi/v2", "v2", &b"\x0a\x032.0"[..]), ("/openapi/v3/apis/apps/v1", "v3", b"\x0a\x053.0.0")]
    {
        let accept = format!("application/com.github.proto-openapi.spec.{version}@v1.0+protobuf");
        let request = Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(api.router.clone(), request).await.unwrap();
        let sent = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
        assert_eq!(response.headers()["content-type"], sent.as_str());
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert!(body.starts_with(first), "{path}");
        assert!(body.len() > 100_000, "{path}: {}", body.len());
    }
}

#[tokio::test(start_paused = true)]
async fn documents_are_kept_by_their_hash() {
    let (api, _) = with_gizmos().await;
    let place = async |name: &str| {
        let root = get(&api, "/openapi/v3", &[]).await.json();
        root["paths"][name]["serverRelativeURL"].as_str().unwrap().to_owned()
    };
    let url = place("apis/present.example.com/v1").await;
    let first = get(&api, &url, &[("accept", "application/json")]).await;
    assert_eq!(first.headers["cache-control"], "public, immutable");
    assert_eq!(first.headers["expires"], "Fri, 01 Jan 2027 00:00:00 UTC");
    assert_eq!(first.headers["vary"], "Accept");
    let etag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(url, format!("/openapi/v3/apis/present.example.com/v1?hash={}", etag.trim_matches('"')));
    assert_eq!(get(&api, &url, &[("if-none-match", etag.as_str())]).await.code, 304);
    let moved = get(&api, "/openapi/v3/apis/present.example.com/v1?hash=123", &[]).await;
    assert_eq!((moved.code, moved.headers["location"].to_str().unwrap()), (301, url.as_str()));
    let unnamed = get(&api, "/openapi/v3/apis/present.example.com/v1", &[]).await;
    assert!(unnamed.headers.get("expires").is_none());
    assert_eq!(get(&api, &url, &[("accept", "application/yaml")]).await.code, 406);

    let apps = place("apis/apps/v1").await;
    let definition = format!("{CRDS}/gizmos.present.example.com");
    let change = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "Another."}]);
    api.ok("JSON", &definition, change).await;
    assert_ne!(place("apis/present.example.com/v1").await, url);
    assert_eq!(place("apis/apps/v1").await, apps);
    let moved = get(&api, &url, &[]).await;
    assert_eq!(moved.code, 301);
}
