//! No body makes the server work the square of its length: each of these is sent small and sixteen times as large, and
//! may cost some more than sixteen times the processor time, never close to 256 times.

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tower::ServiceExt;
use trainyard_apiserver::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const NODES: &str = "/api/v1/nodes";

/// Sixteen times as large, and at most this many times the work: what is linear needs 16 to 30, since caches overflow;
/// a square needs 256.
const FACTOR: usize = 16;
const MOST: f64 = 80.0;

/// Method, path, body. A patch has its kind for a method: see `PATCHES`.
type Step = (&'static str, String, Value);
/// What is measured (the last step) and what comes before it, for a size.
type Case = fn(usize) -> Vec<Step>;

fn items(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

fn members(n: usize, value: &Value) -> Value {
    Value::Object((0..n).map(|i| (format!("k{i}"), value.clone())).collect::<Map<_, _>>())
}

fn post(path: &str, body: Value) -> Step {
    ("POST", path.to_owned(), body)
}

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "main", "image": "a"}]);
    }
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn one(container: Value) -> Vec<Step> {
    let mut container = container;
    container["name"] = "main".into();
    container["image"] = "a".into();
    vec![post(PODS, pod(json!({"containers": [container]})))]
}

fn with_metadata(metadata: Value) -> Value {
    let mut object = json!({"metadata": metadata});
    object["metadata"]["name"] = "m".into();
    object
}

fn definition(spec: &Value) -> Value {
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema},
        ]},
    })
}

/// A list whose items have a name, in the ways lists can be.
fn lists() -> Value {
    let named = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 20}, "value": {"type": "integer", "minimum": 0},
    }});
    json!({"type": "object", "properties": {
        "map": {"type": "array", "items": named, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "atomic": {"type": "array", "items": named},
        "any": {"type": "object", "additionalProperties": {"type": "integer"}},
    }})
}

fn widget(spec: Value) -> Vec<Step> {
    vec![post(CRDS, definition(&lists())), post(WIDGETS, widget_of(&spec))]
}

fn widget_of(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

/// A change of a widget that is there.
fn changed(method: &'static str, from: &Value, to: Value) -> Vec<Step> {
    vec![
        post(CRDS, definition(&lists())),
        post(WIDGETS, widget_of(from)),
        (method, format!("{WIDGETS}/w?fieldManager=other&force=true"), to),
    ]
}

fn container(name: String) -> Value {
    json!({"name": name, "image": "a"})
}

fn owners(n: usize, fields: impl Fn(usize) -> Value) -> Value {
    items(n, |i| {
        json!({"manager": format!("m{i}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields(i)})
    })
}

const PARTS_OF_PODS: &[(&str, Case)] = &[
    ("empty containers", |n| vec![post(PODS, pod(json!({"containers": items(n, |_| json!({}))})))]),
    ("containers", |n| {
        vec![post(PODS, pod(json!({"containers": items(n, |i| container(format!("c{i}")))})))]
    }),
    ("containers of one name", |n| {
        vec![post(PODS, pod(json!({"containers": items(n, |_| container("c".into()))})))]
    }),
    ("init containers", |n| {
        vec![post(PODS, pod(json!({"initContainers": items(n, |i| container(format!("c{i}")))})))]
    }),
    ("empty variables", |n| one(json!({"env": items(n, |_| json!({}))}))),
    ("variables", |n| one(json!({"env": items(n, |i| json!({"name": format!("v{i}")}))}))),
    ("variables of one name", |n| one(json!({"env": items(n, |_| json!({"name": "v"}))}))),
    ("wrong sources of variables", |n| one(json!({"envFrom": items(n, |_| json!({}))}))),
    ("ports", |n| one(json!({"ports": items(n, |i| json!({"containerPort": i % 60_000 + 1}))}))),
    ("ports of one number", |n| one(json!({"ports": items(n, |_| json!({"containerPort": 80}))}))),
    ("ports of one host port", |n| {
        one(json!({"ports": items(n, |_| json!({"containerPort": 80, "hostPort": 80}))}))
    }),
    ("mounts of nothing", |n| one(json!({"volumeMounts": items(n, |_| json!({}))}))),
    ("volumes", |n| {
        vec![post(
            PODS,
            pod(json!({"volumes": items(n, |i| json!({"name": format!("v{i}"), "emptyDir": {}}))})),
        )]
    }),
    ("volumes of one name", |n| {
        vec![post(PODS, pod(json!({"volumes": items(n, |_| json!({"name": "v", "emptyDir": {}}))})))]
    }),
    ("tolerations", |n| {
        let spec = |extra: usize| json!({"tolerations": items(n + extra, |i| json!({"key": format!("k{i}"), "operator": "Exists"}))});
        vec![post(PODS, pod(spec(0))), ("PUT", format!("{PODS}/p"), pod(spec(1)))]
    }),
    ("selectors of nodes", |n| vec![post(PODS, pod(json!({"nodeSelector": members(n, &json!("-"))})))]),
    ("gates", |n| vec![post(PODS, pod(json!({"schedulingGates": items(n, |_| json!({"name": "g"}))})))]),
    ("aliases", |n| vec![post(PODS, pod(json!({"hostAliases": items(n, |_| json!({}))})))]),
];

const METADATA: &[(&str, Case)] = &[
    ("labels", |n| vec![post(MAPS, with_metadata(json!({"labels": members(n, &json!("-"))})))]),
    ("annotations", |n| vec![post(MAPS, with_metadata(json!({"annotations": members(n, &json!(""))})))]),
    ("finalizers", |n| {
        let kept = |n| with_metadata(json!({"finalizers": items(n, |i| json!(format!("a.b/f{i}")))}));
        vec![post(MAPS, kept(n)), ("PUT", format!("{MAPS}/m"), kept(n + 1))]
    }),
    ("owners that are controllers", |n| {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
        vec![post(MAPS, with_metadata(json!({"ownerReferences": items(n, |_| owner.clone())})))]
    }),
    ("owners of fields", |n| {
        let fields = |i| json!({"f:data": {format!("f:k{i}"): {}}});
        let mut map = with_metadata(json!({"managedFields": owners(n, fields)}));
        map["data"] = members(n, &json!(""));
        vec![post(MAPS, map)]
    }),
    ("owners of one field", |n| {
        let mut map = with_metadata(json!({"managedFields": owners(n, |_| json!({"f:data": {"f:k0": {}}}))}));
        map["data"] = members(n, &json!(""));
        vec![post(MAPS, map)]
    }),
    ("data", |n| vec![post(MAPS, json!({"metadata": {"name": "m"}, "data": members(n, &json!("v"))}))]),
    ("unknown fields", |n| vec![post(&format!("{MAPS}?fieldValidation=Strict"), members(n, &json!(1)))]),
];

const OTHERS: &[(&str, Case)] = &[
    ("ports of a service", |n| {
        let service = |n| {
            json!({"metadata": {"name": "s"}, "spec": {"ports": items(n, |i| {
                json!({"name": format!("p{i}"), "port": i % 60_000 + 1, "protocol": "TCP"})
            })}})
        };
        vec![post(SERVICES, service(n)), ("PUT", format!("{SERVICES}/s"), service(n + 1))]
    }),
    ("equal ports of a service", |n| {
        let ports = items(n, |_| json!({"name": "p", "port": 80}));
        vec![post(SERVICES, json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}))]
    }),
    ("rules of a role", |n| {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        vec![post(ROLES, json!({"metadata": {"name": "r"}, "rules": items(n, |_| rule.clone())}))]
    }),
    ("verbs of a rule", |n| {
        let rule =
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": items(n, |i| json!(format!("v{i}")))});
        vec![post(ROLES, json!({"metadata": {"name": "r"}, "rules": [rule]}))]
    }),
    ("subjects of a binding", |n| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
        vec![post(
            BINDINGS,
            json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": items(n, |_| json!({}))}),
        )]
    }),
    ("webhooks", |n| {
        vec![post(HOOKS, json!({"metadata": {"name": "h"}, "webhooks": items(n, |_| json!({}))}))]
    }),
    ("webhooks of one name", |n| {
        let hook = json!({"name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]});
        vec![post(HOOKS, json!({"metadata": {"name": "h"}, "webhooks": items(n, |_| hook.clone())}))]
    }),
    ("taints", |n| {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        vec![post(NODES, json!({"metadata": {"name": "n"}, "spec": {"taints": items(n, |_| taint.clone())}}))]
    }),
    ("versions of a definition", |n| {
        let mut object = definition(&json!({"type": "object"}));
        let version = object["spec"]["versions"][0].clone();
        object["spec"]["versions"] = items(n / 4, |i| {
            let mut version = version.clone();
            version["name"] = format!("v{}", i + 1).into();
            version["storage"] = (i == 0).into();
            version
        });
        vec![post(CRDS, object)]
    }),
    ("properties of a definition", |n| {
        vec![post(
            CRDS,
            definition(&json!({"type": "object", "properties": members(n, &json!({"type": "string"}))})),
        )]
    }),
    ("keys of a list", |n| {
        let keys = items(n, |_| json!("name"));
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": {"name": {"type": "string"}}}});
        vec![post(CRDS, definition(&list))]
    }),
    ("short names", |n| {
        let mut object = definition(&json!({"type": "object"}));
        object["spec"]["names"]["shortNames"] = items(n, |i| json!(format!("s{i}")));
        vec![post(CRDS, object)]
    }),
];

const CUSTOM: &[(&str, Case)] = &[
    ("missing names", |n| widget(json!({"atomic": items(n, |_| json!({}))}))),
    ("a set", |n| widget(json!({"set": items(n, |i| json!(format!("s{i}")))}))),
    ("a set of one value", |n| widget(json!({"set": items(n, |_| json!("s"))}))),
    ("keyed items", |n| widget(json!({"map": items(n, |i| json!({"name": format!("i{i}")}))}))),
    ("items of one key", |n| widget(json!({"map": items(n, |_| json!({"name": "i"}))}))),
    ("wrong numbers", |n| widget(json!({"any": members(n, &json!("x"))}))),
    ("a replacement", |n| {
        let spec =
            |value: i32| json!({"map": items(n, |i| json!({"name": format!("i{i}"), "value": value}))});
        let mut steps = changed("PUT", &spec(1), widget_of(&spec(2)));
        steps[2].2["metadata"]["resourceVersion"] = "LATEST".into();
        steps
    }),
];

/// A patch of a map of `n` members.
fn patched_map(kind: &'static str, n: usize, patch: Value) -> Vec<Step> {
    let map = json!({"metadata": {"name": "m"}, "data": members(n, &json!("v"))});
    vec![post(MAPS, map), (kind, format!("{MAPS}/m"), patch)]
}

/// What somebody applies who had applied something else before, and of which another has a part.
fn applied(before: &Value, query: &str, after: Value) -> Vec<Step> {
    let path = |manager: &str, query: &str| format!("{WIDGETS}/w?fieldManager={manager}{query}");
    vec![
        post(CRDS, definition(&lists())),
        ("APPLY", path("one", ""), widget_of(before)),
        ("APPLY", path("two", query), widget_of(&after)),
    ]
}

fn keyed(n: usize, value: i32) -> Value {
    json!({"map": items(n, |i| json!({"name": format!("i{i}"), "value": value}))})
}

/// A server takes ten thousand operations of a JSON patch, and no more.
const PATCHED: &[(&str, Case)] = &[
    ("a merge patch", |n| patched_map("MERGE", n, json!({"data": members(n, &json!("w"))}))),
    ("a merge patch that removes", |n| patched_map("MERGE", n, json!({"data": members(n, &Value::Null)}))),
    ("additions", |n| {
        let add = |i| json!({"op": "add", "path": format!("/data/n{i}"), "value": "v"});
        patched_map("JSON", n, items(n / 2, add))
    }),
    ("removals", |n| {
        patched_map("JSON", n, items(n / 2, |i| json!({"op": "remove", "path": format!("/data/k{i}")})))
    }),
    ("tests", |n| {
        let test = |i| json!({"op": "test", "path": format!("/data/k{i}"), "value": "v"});
        patched_map("JSON", n, items(n / 2, test))
    }),
    ("moves", |n| {
        let to_and_fro = [
            json!({"op": "move", "from": "/data/k0", "path": "/data/x"}),
            json!({"op": "move", "from": "/data/x", "path": "/data/k0"}),
        ];
        patched_map("JSON", n, items(n / 2, |i| to_and_fro[i % 2].clone()))
    }),
    ("insertions at the front", |n| {
        let mut steps = changed(
            "JSON",
            &json!({"set": []}),
            items(n / 2, |i| json!({"op": "add", "path": "/spec/set/0", "value": format!("s{i}")})),
        );
        steps[2].1 = format!("{WIDGETS}/w");
        steps
    }),
    ("a strategic patch of a keyed list", |n| {
        let ports = |n, target: &str| {
            items(n, |i| json!({"port": i % 60_000 + 1, "name": format!("p{i}"), "targetPort": target}))
        };
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": ports(n, "a")}});
        let order = items(n, |i| json!({"port": i % 60_000 + 1}));
        let patch = json!({"spec": {"ports": ports(n, "b"), "$setElementOrder/ports": order}});
        vec![post(SERVICES, service), ("STRATEGIC", format!("{SERVICES}/s"), patch)]
    }),
    ("a strategic patch that removes items", |n| {
        let finalizers = items(n, |i| json!(format!("a.b/f{i}")));
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}});
        vec![
            post(MAPS, with_metadata(json!({"finalizers": finalizers}))),
            ("STRATEGIC", format!("{MAPS}/m"), patch),
        ]
    }),
    ("what is applied first", |n| applied(&json!({}), "", keyed(n, 1))),
    ("what two apply", |n| applied(&keyed(n, 1), "", keyed(n, 1))),
    ("what is applied by force", |n| applied(&keyed(n, 1), "&force=true", keyed(n, 2))),
    ("conflicts", |n| applied(&keyed(n, 1), "", keyed(n, 2))),
    ("what is applied no more", |n| {
        let mut steps = applied(&keyed(n, 1), "", keyed(0, 1));
        steps[2].1 = steps[1].1.clone();
        steps
    }),
    ("an applied set", |n| {
        let set = |from: usize| json!({"set": items(n, |i| json!(format!("s{}", i + from)))});
        applied(&set(0), "", set(n / 2))
    }),
];

/// How patches are sent.
const PATCHES: [(&str, &str); 4] = [
    ("MERGE", "application/merge-patch+json"),
    ("JSON", "application/json-patch+json"),
    ("STRATEGIC", "application/strategic-merge-patch+json"),
    ("APPLY", "application/apply-patch+yaml"),
];

async fn send(router: &Router, method: &str, path: &str, body: String) -> (u16, usize) {
    let patch = PATCHES.iter().find(|(kind, _)| *kind == method);
    let (method, media) = patch.map_or((method, "application/json"), |(_, media)| ("PATCH", *media));
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes().len())
}

/// Processor time of the process, and of the thread that serves.
fn spent() -> (Duration, Duration) {
    let time = |clock| clock_gettime(clock).unwrap().into();
    (time(ClockId::CLOCK_PROCESS_CPUTIME_ID), time(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

/// The processor time of the last step.
async fn cost(name: &str, steps: &[Step]) -> (Duration, u16) {
    let server = Server::open(Server::options()).unwrap();
    let router = server.router();
    let (last, before) = steps.split_last().unwrap();
    for (method, path, body) in before {
        let (code, _) = send(&router, method, path, body.to_string()).await;
        assert!(code < 300, "{name}: {method} {path} is answered {code}");
    }
    let mut text = last.2.to_string();
    if text.contains("LATEST") {
        let stored =
            router.clone().oneshot(Request::get(format!("{WIDGETS}/w")).body(Body::empty()).unwrap());
        let bytes = stored.await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let stored: Value = serde_json::from_slice(&bytes).unwrap();
        text = text.replace("LATEST", stored["metadata"]["resourceVersion"].as_str().unwrap());
    }
    assert!(text.len() < 3 << 20, "{name}: the body has {} bytes, more than is read", text.len());
    let (large, start) = (text.len() > 64 << 10, spent());
    let (code, answer) = send(&router, last.0, &last.1, text).await;
    let end = spent();
    let (took, serving) = (end.0.saturating_sub(start.0), end.1.saturating_sub(start.1));
    // Large bodies are worked on aside.
    assert!(
        !large || serving * 2 < took,
        "{name}: the thread that serves was busy for {serving:?} of {took:?}"
    );
    assert!(code != 500, "{name}: answered {code}");
    assert!(answer < 16 << 20, "{name}: an answer of {answer} bytes");
    server.shutdown().await;
    (took, code)
}

/// The least of a few runs: what disturbs a run only adds to it.
async fn least(name: &str, steps: &[Step], runs: usize) -> (Duration, u16) {
    let mut least = cost(name, steps).await;
    for _ in 1..runs {
        least = least.min(cost(name, steps).await);
    }
    least
}

#[tokio::test]
async fn work_grows_as_the_body_does() {
    const SMALL: usize = 1000;
    let mut bad = Vec::new();
    for (name, case) in [PARTS_OF_PODS, METADATA, OTHERS, CUSTOM, PATCHED].concat() {
        let (small, _) = least(name, &case(SMALL), 5).await;
        let (large, code) = least(name, &case(SMALL * FACTOR), 1).await;
        let mut ratio = large.as_secs_f64() / small.as_secs_f64();
        if ratio > MOST {
            let (again, _) = least(name, &case(SMALL * FACTOR), 2).await;
            ratio = ratio.min(again.as_secs_f64() / small.as_secs_f64());
        }
        let line = format!("{name}: {small:?}, then {large:?}: {ratio:.0} times as much (answered {code})");
        println!("{line}");
        if ratio > MOST {
            bad.push(line);
        }
    }
    assert!(bad.is_empty(), "more work than the body is larger:\n{}", bad.join("\n"));
}
