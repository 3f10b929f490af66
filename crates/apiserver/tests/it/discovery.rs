//! What the server says about itself: groups, resources, health.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::harness::{Api, Reply};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const WHAT_KUBECTL_SENDS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(Request::builder().uri(path), |r, (name, value)| r.header(*name, *value));
    api.send(request.body(Body::empty()).unwrap()).await
}

fn named<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[field] == name).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn one_document_lists_everything() {
    let api = Api::new();
    api.define_widgets().await;
    let reply = get(&api, "/apis", &[("accept", WHAT_KUBECTL_SENDS)]).await;
    assert_eq!(reply.headers["content-type"], AGGREGATED);
    assert_eq!(
        (&reply.headers["vary"], &reply.headers["cache-control"]),
        (&"Accept".parse().unwrap(), &"public".parse().unwrap())
    );
    let list = reply.json();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|g| g["metadata"]["name"].as_str().unwrap()).collect();
    // In the order of a real server, not of the alphabet; custom groups come last.
    assert_eq!((names[0], names[1], *names.last().unwrap()), ("apps", "events.k8s.io", "example.com"));
    let widgets = &list["items"].as_array().unwrap().last().unwrap()["versions"];
    assert_eq!(
        widgets,
        &json!([{"version": "v1", "freshness": "Current", "resources": [{
            "resource": "widgets", "scope": "Namespaced", "singularResource": "widget", "shortNames": ["wd"],
            "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "subresources": [
                {"subresource": "status", "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                 "verbs": ["get", "patch", "update"]},
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": ["get", "patch", "update"]},
            ],
        }]}])
    );
    let core = get(&api, "/api", &[("accept", AGGREGATED)]).await.json();
    let resources = &core["items"][0]["versions"][0]["resources"];
    let pods = named(resources, "resource", "pods");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_eq!(
        named(&pods["subresources"], "subresource", "eviction")["responseKind"],
        json!({"group": "policy", "version": "v1", "kind": "Eviction"})
    );
    assert_eq!(named(resources, "resource", "namespaces")["scope"], "Cluster");
}

#[tokio::test(start_paused = true)]
async fn a_document_is_sent_again_only_when_it_changed() {
    let api = Api::new();
    let first = get(&api, "/apis", &[("accept", AGGREGATED)]).await;
    let etag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(etag.len(), 130, "{etag}");
    let headers = [("accept", AGGREGATED), ("if-none-match", etag.as_str())];
    let again = get(&api, "/apis", &headers).await;
    assert_eq!((again.code, again.text.as_str()), (304, ""));
    assert_eq!(again.headers["etag"], etag.as_str());
    api.define_widgets().await;
    assert_eq!(get(&api, "/apis", &headers).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn older_clients_ask_group_by_group() {
    let api = Api::new();
    let unaggregated = [(
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    )];
    assert_eq!(get(&api, "/apis", &unaggregated).await.json()["kind"], "APIGroupList");
    let only_beta = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")];
    assert_eq!(get(&api, "/apis", &only_beta).await.code, 406);
    let versions = get(&api, "/api", &[("host", "127.0.0.1:6443")]).await.json();
    assert_eq!(
        versions["serverAddressByClientCIDRs"],
        json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}])
    );
    let core = api.ok("GET", "/api/v1", Value::Null).await;
    assert_eq!((&core["groupVersion"], &core["apiVersion"]), (&json!("v1"), &Value::Null));
    assert_eq!(
        named(&core["resources"], "name", "pods"),
        &json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"],
            "categories": ["all"], "storageVersionHash": "xPOwRZ+Yhw8=",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        })
    );
    let missing = api.call("GET", "/apis/apps/v2", Value::Null).await;
    assert_eq!(
        (missing.code, &missing.json()["message"]),
        (404, &json!("the server could not find the requested resource"))
    );
    let root = api.ok("GET", "/", Value::Null).await;
    for path in ["/api/v1", "/apis/apps/v1", "/livez/ping", "/openapi/v3", "/version"] {
        assert!(root["paths"].as_array().unwrap().contains(&json!(path)), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn health_is_told_check_by_check() {
    let api = Api::new();
    let told = async |path: &str| {
        let reply = api.call("GET", path, Value::Null).await;
        (reply.code, reply.text)
    };
    assert_eq!(told("/livez").await, (200, "ok".into()));
    assert_eq!(
        told("/livez?verbose").await,
        (200, "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n".into())
    );
    assert_eq!(
        told("/healthz?verbose&exclude=etcd&exclude=nope").await,
        (
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
             \"nope\"\nhealthz check passed\n"
                .into()
        )
    );
    assert_eq!(told("/livez/ping").await, (200, "ok".into()));
    assert!(
        api.call("GET", "/livez/ping", Value::Null).await.headers.get("x-content-type-options").is_none()
    );
    assert_eq!(told("/livez/nope").await, (404, "404 page not found\n".into()));
    assert_eq!(told("/readyz/shutdown").await, (200, "ok".into()));
}

#[tokio::test(start_paused = true)]
async fn the_version_is_one_clients_can_parse() {
    let version = Api::new().ok("GET", "/version", Value::Null).await;
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert_eq!(version["gitVersion"], "v1.36.3+trainyard");
}
