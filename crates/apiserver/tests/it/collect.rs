//! Garbage collection and the end of namespaces.

use serde_json::{Value, json};
use std::time::Duration;
use trainyard_apiserver::Server;

use crate::harness::{Api, MAPS, PODS, clock, map, pod};

const NULL: Value = Value::Null;

fn owned(name: &str, owners: &[(&Value, bool)]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, block)| {
            json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block})
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_last_owner() {
    let api = Api::new();
    let a = api.ok("POST", MAPS, map("a")).await;
    let b = api.ok("POST", MAPS, map("b")).await;
    api.ok("POST", MAPS, owned("of-a", &[(&a, false)])).await;
    let both = api.ok("POST", MAPS, owned("of-both", &[(&a, false), (&b, false)])).await;
    api.ok("POST", MAPS, owned("of-of-both", &[(&both, false)])).await;
    api.ok("DELETE", &format!("{MAPS}/a"), NULL).await;
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{MAPS}/of-a")).await, 404);
    let left = api.ok("GET", &format!("{MAPS}/of-both"), NULL).await;
    assert_eq!(left["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    api.ok("DELETE", &format!("{MAPS}/b"), NULL).await;
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{MAPS}/of-both")).await, 404);
    assert_eq!(api.code("GET", &format!("{MAPS}/of-of-both")).await, 404);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_collects_and_one_nobody_knows_does_not() {
    let api = Api::new();
    let a = api.ok("POST", MAPS, map("a")).await;
    let mut ghost = a.clone();
    ghost["metadata"]["uid"] = json!("never-was");
    api.ok("POST", MAPS, owned("ghostly", &[(&ghost, false)])).await;
    let mut stranger = a.clone();
    stranger["kind"] = json!("Gadget");
    stranger["apiVersion"] = json!("nowhere.io/v1");
    api.ok("POST", MAPS, owned("stray", &[(&stranger, false)])).await;
    // The right uid under the wrong kind is not the owner.
    let mut wrong = a.clone();
    wrong["kind"] = json!("Secret");
    api.ok("POST", MAPS, owned("mistaken", &[(&wrong, false)])).await;
    // Owners are looked for in the dependent's own namespace.
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    api.ok("POST", elsewhere, owned("across", &[(&a, false)])).await;
    // A cluster-scoped object cannot name an owner in a namespace.
    api.ok("POST", "/api/v1/nodes", owned("n", &[(&a, false)])).await;
    api.settle().await;
    for (path, code) in [
        (format!("{MAPS}/ghostly"), 404),
        (format!("{MAPS}/stray"), 200),
        (format!("{MAPS}/mistaken"), 404),
        (format!("{elsewhere}/across"), 404),
        ("/api/v1/nodes/n".to_owned(), 200),
    ] {
        assert_eq!(api.code("GET", &path).await, code, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_dependents() {
    let api = Api::new();
    let a = api.ok("POST", MAPS, map("a")).await;
    let mut held = owned("held", &[(&a, true)]);
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    api.ok("POST", MAPS, held).await;
    api.ok("POST", MAPS, owned("free", &[(&a, true)])).await;
    let path = format!("{MAPS}/a");
    let going = api.ok("DELETE", &path, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{MAPS}/free")).await, 404);
    assert_eq!(api.code("GET", &path).await, 200);
    api.ok("MERGE", &format!("{MAPS}/held"), json!({"metadata": {"finalizers": []}})).await;
    api.settle().await;
    assert_eq!(api.code("GET", &path).await, 404);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay() {
    let api = Api::new();
    let a = api.ok("POST", MAPS, map("a")).await;
    api.ok("POST", MAPS, owned("child", &[(&a, true)])).await;
    api.ok("DELETE", &format!("{MAPS}/a?propagationPolicy=Orphan"), NULL).await;
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{MAPS}/a")).await, 404);
    let child = api.ok("GET", &format!("{MAPS}/child"), NULL).await;
    assert_eq!(child["metadata"]["ownerReferences"], NULL);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_with_everything_in_it() {
    let api = Api::new();
    let zoo = "/api/v1/namespaces/zoo";
    let made = api.ok("POST", "/api/v1/namespaces", map("zoo")).await;
    assert_eq!(made["status"]["phase"], "Active");
    api.ok("POST", &format!("{zoo}/configmaps"), map("a")).await;
    let mut held = pod("p");
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    api.ok("POST", &format!("{zoo}/pods"), held).await;
    api.ok("POST", PODS, pod("other")).await;
    let going = api.ok("DELETE", zoo, NULL).await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let refused = api.call("POST", &format!("{zoo}/configmaps"), map("b")).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{zoo}/configmaps/a")).await, 404);
    assert_eq!(api.code("GET", zoo).await, 200);
    api.ok("MERGE", &format!("{zoo}/pods/p"), json!({"metadata": {"finalizers": null}})).await;
    api.settle().await;
    assert_eq!(api.code("GET", zoo).await, 404);
    assert_eq!(api.code("GET", &format!("{PODS}/other")).await, 200);
    assert_eq!(api.code("DELETE", "/api/v1/namespaces/default").await, 403);
}

#[tokio::test(start_paused = true)]
async fn events_expire_after_their_last_change() {
    let api = Api::with(Server::options().clock(clock()).event_ttl(Duration::from_secs(60)));
    let path = "/api/v1/namespaces/default/events";
    api.ok("POST", path, map("once")).await;
    api.ok("POST", path, map("again")).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    api.ok("MERGE", &format!("{path}/again"), json!({"count": 2})).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(api.code("GET", &format!("{path}/once")).await, 404);
    assert_eq!(api.code("GET", &format!("{path}/again")).await, 200);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(api.code("GET", &format!("{path}/again")).await, 404);
}
