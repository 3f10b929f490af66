//! Garbage collection and the end of namespaces.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_apiserver::Server;

use crate::harness::{Api, MAPS, PODS, clock, map, pod, rv};

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

/// Longer than any way that is followed to its end.
#[tokio::test(start_paused = true)]
async fn a_long_row_and_a_long_circle_end_in_the_foreground() {
    let names: Vec<String> = (0..300).map(|n| format!("n{n}")).collect();
    for closed in [false, true] {
        let before = |n: usize| n.checked_sub(1).or(closed.then_some(names.len() - 1));
        let owners: Vec<Vec<&str>> = (0..names.len())
            .map(|n| before(n).map(|owner| names[owner].as_str()).into_iter().collect())
            .collect();
        let links: Vec<(&str, &[&str])> =
            names.iter().map(String::as_str).zip(owners.iter().map(Vec::as_slice)).collect();
        let api = Api::new();
        linked(&api, &links).await;
        api.ok("DELETE", &format!("{MAPS}/n0"), json!({"propagationPolicy": "Foreground"})).await;
        api.settle().await;
        assert_eq!(left(&api).await, [""; 0], "closed: {closed}");
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

/// The conditions of a namespace, each as a line, and its version.
async fn conditions(api: &Api, namespace: &str) -> (Vec<String>, u64) {
    let namespace = api.ok("GET", namespace, NULL).await;
    let list = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
    let line =
        |condition: &Value| ["type", "status", "reason", "message"].map(|f| text(condition, f)).join(" ");
    (list.iter().map(line).collect(), rv(&namespace))
}

const DISCOVERED: &str =
    "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered All resources successfully discovered";
const PARSED: &str = "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions All legacy kube types successfully parsed";
const DELETED: &str = "NamespaceDeletionContentFailure False ContentDeleted All content successfully deleted, may be \
    waiting on finalization";
const NO_FINALIZERS: &str =
    "NamespaceFinalizersRemaining False ContentHasNoFinalizers All content-preserving finalizers finished";

#[tokio::test(start_paused = true)]
async fn a_namespace_says_what_keeps_it() {
    let api = Api::new();
    let zoo = "/api/v1/namespaces/zoo";
    api.ok("POST", "/api/v1/namespaces", map("zoo")).await;
    let held =
        |name: &str, finalizers: &[&str]| json!({"metadata": {"name": name, "finalizers": finalizers}});
    api.ok("POST", &format!("{zoo}/configmaps"), held("a", &["example.com/hold", "example.com/keep"])).await;
    api.ok("POST", &format!("{zoo}/configmaps"), held("b", &["example.com/hold"])).await;
    api.ok("POST", &format!("{zoo}/secrets"), map("c")).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/zoo/leases";
    api.ok("POST", leases, held("d", &["example.com/hold"])).await;
    assert_eq!(conditions(&api, zoo).await.0, [""; 0]);
    api.ok("DELETE", zoo, NULL).await;
    api.settle().await;
    let (said, version) = conditions(&api, zoo).await;
    let expected = [
        DISCOVERED,
        PARSED,
        DELETED,
        "NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: configmaps. has 2 resource \
         instances, leases.coordination.k8s.io has 1 resource instances",
        "NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers \
         remaining: example.com/hold in 3 resource instances, example.com/keep in 1 resource instances",
    ];
    assert_eq!(said, expected);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(conditions(&api, zoo).await.1, version, "nothing changed, so nothing is written");
    // What changes is told, but not at once: thousands of objects may be going.
    api.ok("DELETE", &format!("{leases}/d"), NULL).await;
    api.ok("MERGE", &format!("{leases}/d"), held("d", &[])).await;
    api.ok("MERGE", &format!("{zoo}/configmaps/a"), held("a", &["example.com/hold"])).await;
    api.settle().await;
    assert_eq!(conditions(&api, zoo).await.0, expected);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (said, _) = conditions(&api, zoo).await;
    assert!(said[3].ends_with("remaining: configmaps. has 2 resource instances"), "{said:?}");
    assert!(said[4].ends_with("remaining: example.com/hold in 2 resource instances"), "{said:?}");
    let namespace = api.ok("GET", zoo, NULL).await;
    let condition = &namespace["status"]["conditions"][3];
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z", "the status is the same since then");
    for name in ["a", "b"] {
        api.ok("MERGE", &format!("{zoo}/configmaps/{name}"), held(name, &[])).await;
    }
    api.settle().await;
    assert_eq!(api.code("GET", zoo).await, 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_a_finalizer_of_its_own_says_that_it_is_empty() {
    let api = Api::new();
    let zoo = "/api/v1/namespaces/zoo";
    api.ok(
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "zoo", "finalizers": ["example.com/hold"]}}),
    )
    .await;
    api.ok("DELETE", zoo, NULL).await;
    api.settle().await;
    let removed = "NamespaceContentRemaining False ContentRemoved All content successfully removed";
    assert_eq!(conditions(&api, zoo).await.0, [DISCOVERED, PARSED, DELETED, removed, NO_FINALIZERS]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_says_why_its_content_cannot_be_deleted() {
    let api = Api::new();
    let zoo = "/api/v1/namespaces/zoo";
    api.ok("POST", "/api/v1/namespaces", map("zoo")).await;
    api.ok("POST", &format!("{zoo}/configmaps"), map("a")).await;
    api.ok("POST", &format!("{zoo}/secrets"), map("b")).await;
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let nowhere = json!({
        "name": "x.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"service": {"name": "none", "namespace": "default"}},
        "rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    api.ok("POST", hooks, json!({"metadata": {"name": "h"}, "webhooks": [nowhere]})).await;
    api.ok("DELETE", zoo, NULL).await;
    api.settle().await;
    let (said, version) = conditions(&api, zoo).await;
    let failed = "NamespaceDeletionContentFailure True ContentDeletionFailed Failed to delete all resource types, 1 \
        remaining: Internal error occurred: failed calling webhook \"x.example.com\"";
    assert!(said[2].starts_with(failed), "{said:?}");
    assert!(said[3].ends_with("remaining: configmaps. has 1 resource instances"), "{said:?}");
    assert_eq!(said[4], NO_FINALIZERS);
    assert_eq!(
        api.code("GET", &format!("{zoo}/secrets/b")).await,
        404,
        "other kinds are deleted all the same"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(conditions(&api, zoo).await.1, version, "the same failure is not written again");
    api.ok("DELETE", &format!("{hooks}/h"), NULL).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(api.code("GET", zoo).await, 404);
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
