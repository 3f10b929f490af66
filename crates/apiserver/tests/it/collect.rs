//! Garbage collection and the end of namespaces.

use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// Makes maps of these names; then each gets the owners that are named beside it, as blocking references.
async fn linked(api: &Api, links: &[(&str, &[&str])]) {
    let mut made = BTreeMap::new();
    for (name, _) in links {
        made.insert(*name, api.ok("POST", MAPS, map(name)).await);
    }
    for (name, owners) in links {
        let owners: Vec<(&Value, bool)> = owners.iter().map(|owner| (&made[owner], true)).collect();
        api.ok("MERGE", &format!("{MAPS}/{name}"), owned(name, &owners)).await;
    }
}

async fn left(api: &Api) -> Vec<String> {
    let list = api.ok("GET", MAPS, NULL).await;
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn circles_of_owners_end_in_the_foreground() {
    let circles: [&[(&str, &[&str])]; 5] = [
        &[("a", &["a"])],
        &[("a", &["b"]), ("b", &["a"])],
        &[("a", &["c"]), ("b", &["a"]), ("c", &["b"])],
        // A chain hangs from the circle.
        &[("a", &["b"]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"]), ("e", &["d"])],
        // Two circles share an object, which is its own owner too.
        &[("a", &["b", "c", "a"]), ("b", &["a"]), ("c", &["a"])],
    ];
    for links in circles {
        let api = Api::new();
        linked(&api, links).await;
        api.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
        api.settle().await;
        assert_eq!(left(&api).await, [""; 0], "{links:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_circle_ends_when_each_of_it_is_deleted_in_the_foreground() {
    let api = Api::new();
    linked(&api, &[("a", &["b"]), ("b", &["a"])]).await;
    let foreground = json!({"propagationPolicy": "Foreground"});
    let (a, b) = (format!("{MAPS}/a"), format!("{MAPS}/b"));
    tokio::join!(api.call("DELETE", &a, foreground.clone()), api.call("DELETE", &b, foreground));
    api.settle().await;
    assert_eq!(left(&api).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_circle_waits_for_what_hangs_from_it() {
    let api = Api::new();
    linked(&api, &[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("held", &["b"])]).await;
    let held = format!("{MAPS}/held");
    api.ok("MERGE", &held, json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    api.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    api.settle().await;
    // It was asked that `a` goes after `b`, and `b` after what it owns.
    assert_eq!(left(&api).await, ["a", "b", "c", "held"]);
    api.ok("MERGE", &held, json!({"metadata": {"finalizers": null}})).await;
    api.settle().await;
    assert_eq!(left(&api).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_goes_when_what_it_waits_for_is_no_longer_its_dependent() {
    let api = Api::new();
    linked(&api, &[("a", &[]), ("b", &["a"])]).await;
    let b = format!("{MAPS}/b");
    api.ok("MERGE", &b, json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    api.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    api.settle().await;
    assert_eq!(left(&api).await, ["a", "b"]);
    api.ok("MERGE", &b, json!({"metadata": {"ownerReferences": null}})).await;
    api.settle().await;
    assert_eq!(left(&api).await, ["b"]);
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
