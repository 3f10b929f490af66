//! Environments as a kubelet makes them.

use serde_json::{Value, json};

use super::*;
use crate::quantity::quantity;
use crate::sources::Fetched;

fn sources() -> Fetched {
    let key = |name: &str| ("ns".to_owned(), name.to_owned());
    let map = json!({ "metadata": {}, "data": { "LR": "0.1", "bad=name": "x", "zero": "a\u{0}b" } });
    // "c2VjcmV0" is "secret", "/w==" is no text.
    let secret = json!({ "metadata": {}, "data": { "token": "c2VjcmV0", "blob": "/w==" } });
    Fetched {
        config_maps: [(key("map"), serde_json::from_value(map).unwrap())].into(),
        secrets: [(key("sec"), serde_json::from_value(secret).unwrap())].into(),
        claims: BTreeMap::new(),
        tokens: BTreeMap::new(),
    }
}

fn facts() -> NodeFacts {
    NodeFacts {
        host_ip: "10.0.0.1".into(),
        pod_ip: "127.0.0.1".into(),
        node_name: "here".into(),
        allocatable: [("cpu".to_owned(), quantity("4")), ("memory".to_owned(), quantity("8Gi"))].into(),
    }
}

fn pod_with(container: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": "p", "uid": "u-1",
            "labels": { "app.kubernetes.io/name": "mnist", "tier": "a\"b" }, "annotations": { "note": "hi" },
        },
        "spec": { "serviceAccountName": "runner", "containers": [container] },
    }))
    .unwrap()
}

fn env_of(container: Value) -> Result<BTreeMap<String, String>, String> {
    let pod = pod_with(container);
    let container = &pod.spec.as_ref().unwrap().containers[0];
    environment(&pod, container, &sources(), &facts()).map_err(|error| error.to_string())
}

fn one(value_from: Value) -> Result<Option<String>, String> {
    env_of(json!({ "name": "c", "env": [{ "name": "X", "valueFrom": value_from }] }))
        .map(|mut env| env.remove("X"))
}

#[test]
fn later_values_see_earlier_ones_and_env_wins_over_env_from() {
    let env = env_of(json!({
        "name": "c",
        "envFrom": [{ "configMapRef": { "name": "map" } }, { "prefix": "S_", "secretRef": { "name": "sec" } }],
        "env": [
            { "name": "EARLY", "value": "$(LATE)" },
            { "name": "LATE", "value": "lr=$(LR) $$(LR)" },
            { "name": "LR", "value": "1" },
            { "name": "NEW", "value": "$(LR)" },
            { "name": "EMPTY" },
        ],
    }))
    .unwrap();
    let pairs: Vec<String> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = ["EARLY=$(LATE)", "EMPTY=", "LATE=lr=0.1 $(LR)", "LR=1", "NEW=1", "S_token=secret"];
    assert_eq!(pairs, expected);
}

#[test]
fn every_field_of_the_downward_api() {
    let cases = [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.kubernetes.io/name']", "mnist"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['note']", "hi"),
        ("spec.nodeName", "here"),
        ("spec.serviceAccountName", "runner"),
        ("status.hostIP", "10.0.0.1"),
        ("status.podIP", "127.0.0.1"),
        ("status.podIPs", "127.0.0.1"),
    ];
    for (path, expected) in cases {
        assert_eq!(one(json!({ "fieldRef": { "fieldPath": path } })), Ok(Some(expected.into())), "{path}");
    }
    let labels = field(&pod_with(json!({ "name": "c" })), &facts(), "metadata.labels").unwrap();
    assert_eq!(labels, "app.kubernetes.io/name=\"mnist\"\ntier=\"a\\\"b\"");
    let unknown = one(json!({ "fieldRef": { "fieldPath": "spec.hostname" } }));
    assert_eq!(unknown, Err("unsupported fieldPath: spec.hostname".into()));
}

#[test]
fn resources_are_divided_and_rounded_up() {
    let value = |resource: &str, divisor: &str| {
        let reference = json!({ "resource": resource, "divisor": divisor });
        env_of(json!({
            "name": "c",
            "resources": { "limits": { "cpu": "1500m" }, "requests": { "memory": "100Mi" } },
            "env": [{ "name": "X", "valueFrom": { "resourceFieldRef": reference } }],
        }))
        .map(|mut env| env.remove("X").unwrap())
    };
    let cases = [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.cpu", "0", "2"),
        ("requests.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "100"),
        ("limits.memory", "1Gi", "8"),
        ("requests.ephemeral-storage", "1", "0"),
    ];
    for (resource, divisor, expected) in cases {
        assert_eq!(value(resource, divisor), Ok(expected.into()), "{resource} / {divisor}");
    }
    assert_eq!(value("cpu", "1"), Err("unsupported container resource: cpu".into()));
    assert!(value("limits.cpu", "x").unwrap_err().contains("is not a quantity"));
    let other = one(json!({ "resourceFieldRef": { "containerName": "d", "resource": "limits.cpu" } }));
    assert_eq!(other, Err("container d not found".into()));
}

#[test]
fn what_is_missing_is_named_and_what_is_optional_is_left_out() {
    let map = |name: &str, key: &str, optional: bool| {
        one(json!({ "configMapKeyRef": { "name": name, "key": key, "optional": optional } }))
    };
    let secret = |name: &str, key: &str, optional: bool| {
        one(json!({ "secretKeyRef": { "name": name, "key": key, "optional": optional } }))
    };
    assert_eq!(map("map", "LR", false), Ok(Some("0.1".into())));
    assert_eq!(map("no", "LR", false), Err("configmap \"no\" not found".into()));
    assert_eq!(map("map", "no", false), Err("couldn't find key no in ConfigMap ns/map".into()));
    assert_eq!((map("no", "LR", true), map("map", "no", true)), (Ok(None), Ok(None)));
    assert_eq!(secret("sec", "token", false), Ok(Some("secret".into())));
    assert_eq!(secret("no", "token", false), Err("secret \"no\" not found".into()));
    assert_eq!(secret("sec", "no", false), Err("couldn't find key no in Secret ns/sec".into()));
    assert_eq!((secret("no", "token", true), secret("sec", "no", true)), (Ok(None), Ok(None)));
    assert!(secret("sec", "blob", false).unwrap_err().contains("is not text"));
    let from = |name: &str, optional: bool| {
        env_of(json!({ "name": "c", "envFrom": [{ "secretRef": { "name": name, "optional": optional } }] }))
    };
    assert_eq!(from("no", false), Err("secret \"no\" not found".into()));
    assert_eq!(from("no", true), Ok(BTreeMap::new()));
}

#[test]
fn what_no_process_can_be_given_is_refused() {
    let env =
        |name: &str, value: &str| env_of(json!({ "name": "c", "env": [{ "name": name, "value": value }] }));
    assert!(env("A=B", "x").unwrap_err().contains("\"A=B\""));
    assert!(env("A", "x\u{0}").unwrap_err().contains("zero byte"));
    assert_eq!(env("spring.profile", "x").unwrap().len(), 1);
}
