//! No request, however odd, makes the server panic or answer with an internal error.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::harness::{Api, CRDS, WIDGETS, map, pod, widget, widgets};

/// Words the server gives a meaning to, so that random bodies reach its rules.
const WORDS: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "kind",
    "apiVersion",
    "spec",
    "status",
    "containers",
    "image",
    "ports",
    "port",
    "replicas",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "creationTimestamp",
    "conditions",
    "clusterIP",
    "versions",
    "schema",
    "openAPIV3Schema",
    "properties",
    "type",
    "names",
    "plural",
    "group",
    "scope",
    "stringData",
    "data",
    "resources",
    "limits",
    "target",
    "op",
    "path",
    "value",
    "a",
    "w",
    "p",
    "default",
    "Widget",
    "example.com/v1",
    "v1",
    "object",
    "1",
    "",
    "/metadata",
    "/spec",
    "add",
    "remove",
    "copy",
    "from",
    "$patch",
    "delete",
    "preconditions",
    "propagationPolicy",
    "Foreground",
    "gracePeriodSeconds",
    "deleteOptions",
    "finalize",
    "storage",
    "served",
    "subresources",
    "scale",
];
const METHODS: &[&str] =
    &["GET", "POST", "PUT", "DELETE", "MERGE", "JSON", "STRATEGIC", "APPLY", "PROTOBUF", "PATCH", "OPTIONS"];
const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/events",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    WIDGETS,
    CRDS,
    "/api/v1/namespaces/default/secrets",
    "/api/v1/pods",
    "/apis/example.com/v1",
    "/apis",
    "/nothing",
    "//api//v1",
    "/api/v1/namespaces/%2e%2e/pods",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
];
const ENDS: &[&str] = &[
    "",
    "/p",
    "/w",
    "/p/status",
    "/w/status",
    "/w/scale",
    "/p/binding",
    "/p/eviction",
    "/default/finalize",
    "/%ff",
    "/widgets.example.com",
    "/p/q/r",
    "/default",
];
const QUERIES: &[&str] = &[
    "limit=1",
    "limit=-1",
    "continue=1.2.x",
    "continue=0.0.%2525",
    "labelSelector=a in (b)",
    "labelSelector=%00",
    "fieldSelector=metadata.name=p",
    "fieldSelector===",
    "resourceVersion=0",
    "resourceVersion=99999999999999999999",
    "resourceVersion=1&resourceVersionMatch=Exact",
    "watch=true&timeoutSeconds=1",
    "dryRun=All",
    "fieldValidation=Strict",
    "gracePeriodSeconds=9223372036854775807",
    "propagationPolicy=Orphan",
    "&&=&%",
    "pretty",
    "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(WORDS), inner, 0..6).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// A random value, alone or put somewhere into an object that would be accepted.
fn body() -> impl Strategy<Value = Value> {
    let good = prop::sample::select(vec![
        pod("p"),
        widget("w"),
        widgets(),
        map("p"),
        json!({"target": {"name": "n"}}),
    ]);
    let places = prop::sample::select(vec![
        "/metadata",
        "/metadata/labels",
        "/metadata/name",
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/status",
        "/spec/versions",
        "/spec/versions/0",
        "/spec/versions/0/schema/openAPIV3Schema",
        "/spec/names",
        "/spec/scope",
    ]);
    prop_oneof![
        1 => value(),
        3 => (good, places, value()).prop_map(|(mut object, place, value)| {
            if let Some(found) = object.pointer_mut(place) {
                *found = value;
            }
            object
        }),
    ]
}

type Call = (&'static str, String, Value);

fn call() -> impl Strategy<Value = Call> {
    let query = prop::collection::vec(prop::sample::select(QUERIES), 0..3);
    (
        prop::sample::select(METHODS),
        prop::sample::select(COLLECTIONS),
        prop::sample::select(ENDS),
        query,
        body(),
    )
        .prop_map(|(method, collection, end, query, body)| {
            let query = query.join("&").replace(' ', "+");
            (method, format!("{collection}{end}?{query}"), body)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn odd_requests_are_answered(calls in prop::collection::vec(call(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = Api::new();
            api.define_widgets().await;
            for (method, path, body) in calls {
                let reply = api.call(method, &path, body.clone()).await;
                // A real server answers some numbers it cannot read with a 500 without a reason, and so do we.
                let broken = reply.code == 500 && reply.json()["reason"] == "InternalError";
                assert!(!broken, "{method} {path} {body}\n{}", reply.text);
            }
            api.settle().await;
            assert_eq!(api.code("GET", "/api/v1/namespaces").await, 200);
            api.server.shutdown().await;
        });
    }
}
