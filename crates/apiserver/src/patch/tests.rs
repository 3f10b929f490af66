//! What patches do, case by case, and what holds for all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::strategic::{Rule, rule};
use super::*;
use crate::types::of;

fn merged(target: Value, patch: Value) -> Value {
    let mut target = target;
    merge(&mut target, &patch);
    target
}

fn pod(target: Value, patch: Value) -> Result<Value, PatchError> {
    let mut target = target;
    let before = target.clone();
    let result = strategic(&mut target, &patch, of("", "v1", "Pod").unwrap());
    if result.is_err() {
        assert_eq!(target, before, "a refused patch leaves the target alone");
    }
    result.map(|()| target)
}

#[test]
fn merge_follows_the_table_of_rfc_7396() {
    for (target, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        assert_eq!(merged(target.clone(), patch.clone()), expected, "{target} + {patch}");
    }
}

#[test]
fn json_patch_applies_or_leaves_alone() {
    let start = json!({"a": [1, 2], "b": {"c": "d"}});
    let mut target = start.clone();
    let ops = json!([
        {"op": "test", "path": "/b/c", "value": "d"},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/b/c", "value": null},
        {"op": "copy", "from": "/a", "path": "/e"},
        {"op": "move", "from": "/b", "path": "/f~1g"},
        {"op": "remove", "path": "/a/0"},
    ]);
    json(&mut target, &ops).unwrap();
    assert_eq!(target, json!({"a": [2, 3], "e": [1, 2, 3], "f/g": {"c": null}}));

    for (ops, invalid) in [
        (json!({}), false),
        (json!([{"op": "paint", "path": "/a"}]), false),
        (json!([{"op": "add", "path": "a", "value": 1}]), false),
        (json!([{"op": "add", "path": "/z", "value": 1}, {"op": "test", "path": "/z", "value": 2}]), true),
        (json!([{"op": "add", "path": "/z", "value": 1}, {"op": "remove", "path": "/y"}]), true),
        (json!([{"op": "add", "path": "/x/y", "value": 1}]), true),
        (json!([{"op": "replace", "path": "/x/y", "value": 1}]), true),
        (json!([{"op": "add", "path": "/a/7", "value": 1}]), true),
        (json!([{"op": "move", "from": "/b", "path": "/b/c"}]), true),
        (Value::Array(vec![json!({"op": "test", "path": "/b/c", "value": "d"}); 10_001]), true),
    ] {
        let mut target = start.clone();
        let error = json(&mut target, &ops).unwrap_err();
        assert_eq!(matches!(error, PatchError::Invalid(_)), invalid, "{error}");
        assert_eq!(target, start);
    }
}

#[test]
fn copying_cannot_explode() {
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let mut target = json!({"a": ["x".repeat(1000)]});
    let error = json(&mut target, &Value::Array(vec![double; 100])).unwrap_err();
    assert!(error.to_string().contains("duplicate more than"), "{error}");

    let mut target = json!({"a": {}});
    let nest: Vec<Value> = (1..100)
        .map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a{}", "/a".repeat(i))}))
        .collect();
    let error = json(&mut target, &Value::Array(nest)).unwrap_err();
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

#[test]
fn lists_merge_by_key() {
    let start = json!({"spec": {"containers": [
        {"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "http"}], "args": ["x", "y"]},
        {"name": "b", "image": "1"},
    ], "tolerations": [{"key": "t"}]}});
    let patch = json!({"spec": {"containers": [
        {"name": "b", "image": null, "env": [{"name": "E", "value": "1"}]},
        {"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}], "args": ["z"]},
    ], "tolerations": [{"key": "u"}]}});
    let expected = json!({"spec": {"containers": [
        {"name": "b", "env": [{"name": "E", "value": "1"}]},
        {"name": "a", "image": "1", "args": ["z"],
         "ports": [{"containerPort": 80, "name": "http", "protocol": "UDP"}, {"containerPort": 81}]},
    ], "tolerations": [{"key": "u"}]}});
    assert_eq!(pod(start, patch).unwrap(), expected);
}

#[test]
fn order_of_merged_lists() {
    let named = |names: &[&str]| json!({"spec": {"volumes": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()}});
    for (stored, patch, expected) in [
        // A new item comes first, as kubectl's documentation shows for an added container.
        (vec!["a", "b"], vec!["c"], vec!["c", "a", "b"]),
        (vec!["a", "b"], vec!["b"], vec!["a", "b"]),
        (vec!["a", "b", "c"], vec!["c", "a"], vec!["b", "c", "a"]),
        (vec!["a", "b", "c"], vec!["b", "d"], vec!["a", "b", "d", "c"]),
        (vec![], vec!["x", "y"], vec!["x", "y"]),
    ] {
        assert_eq!(pod(named(&stored), named(&patch)).unwrap(), named(&expected), "{stored:?} + {patch:?}");
    }
    let mut patch = named(&["c"]);
    patch["spec"]["$setElementOrder/volumes"] = json!([{"name": "b"}, {"name": "a"}, {"name": "c"}]);
    assert_eq!(pod(named(&["a", "b"]), patch).unwrap(), named(&["b", "a", "c"]));
    // Deleted and added again: it is new, and comes first.
    let patch = json!({"spec": {"volumes": [{"$patch": "delete", "name": "b"}, {"name": "b"}]}});
    assert_eq!(pod(named(&["a", "b"]), patch).unwrap(), named(&["b", "a"]));
    let patch = json!({"spec": {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(pod(named(&["a", "b"]), patch.clone()).unwrap(), named(&["b", "a"]));
    assert_eq!(pod(json!({"spec": {}}), patch).unwrap(), json!({"spec": {}}));
}

#[test]
fn directives() {
    let start = json!({"spec": {"nodeSelector": {"a": "1"}, "volumes": [
        {"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/x"}}]}});
    let volumes = |patch: Value| {
        pod(start.clone(), json!({"spec": {"volumes": patch}})).map(|p| p["spec"]["volumes"].clone())
    };
    for (patch, expected) in [
        (json!([{"$patch": "delete", "name": "v"}]), json!([{"name": "w", "hostPath": {"path": "/x"}}])),
        (
            json!([{"$patch": "delete", "name": "v"}, {"name": "v", "configMap": {"name": "c"}}]),
            json!([{"name": "w", "hostPath": {"path": "/x"}}, {"name": "v", "configMap": {"name": "c"}}]),
        ),
        (json!([{"$patch": "replace"}, {"name": "n", "secret": null}]), json!([{"name": "n"}])),
        (
            json!([{"$patch": "merge", "name": "v", "secret": {"secretName": "s"}}]),
            json!([{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}, {"name": "w", "hostPath": {"path": "/x"}}]),
        ),
        (
            json!([{"$retainKeys": ["name", "secret"], "name": "v", "secret": {"secretName": "s"}}]),
            json!([{"name": "v", "secret": {"secretName": "s"}}, {"name": "w", "hostPath": {"path": "/x"}}]),
        ),
        (json!([]), json!([{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/x"}}])),
    ] {
        // A deleted and re-added item keeps no place; compare as sets of names where the order is open.
        let actual = volumes(patch.clone()).unwrap();
        let sorted = |v: &Value| {
            let mut v = v.as_array().unwrap().clone();
            v.sort_by_key(|i| i["name"].to_string());
            v
        };
        assert_eq!(sorted(&actual), sorted(&expected), "{patch}");
    }
    let spec = |patch: Value| pod(start.clone(), json!({"spec": patch})).map(|p| p["spec"].clone());
    assert_eq!(
        spec(json!({"nodeSelector": {"$patch": "replace", "b": "2"}})).unwrap()["nodeSelector"],
        json!({"b": "2"})
    );
    assert_eq!(spec(json!({"nodeSelector": {"$patch": "delete"}})).unwrap()["nodeSelector"], json!({}));
    assert_eq!(spec(json!({"volumes": null})).unwrap().get("volumes"), None);
    for (patch, unexpected) in [
        (json!({"volumes": [{"emptyDir": {}}]}), true),
        (json!({"volumes": [{"$patch": "delete"}]}), true),
        (json!({"volumes": ["v"]}), true),
        (json!({"nodeSelector": {"$patch": "paint"}}), true),
        (json!({"nodeSelector": {"$retainKeys": "a"}}), false),
        (json!({"nodeSelector": {"$retainKeys": ["a"], "b": "1"}}), false),
        (json!({"$setElementOrder/volumes": 1}), true),
        (json!({"$setElementOrder/volumes": [{"name": "v"}], "volumes": [{"name": "other"}]}), true),
    ] {
        let error = spec(patch.clone()).unwrap_err();
        assert_eq!(matches!(error, PatchError::Unexpected(_)), unexpected, "{patch}: {error}");
    }
    assert!(pod(json!({}), json!([])).is_err());
}

#[test]
fn finalizers_are_a_set() {
    let start =
        json!({"metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}]}});
    let meta = |patch: Value| pod(start.clone(), json!({"metadata": patch})).unwrap()["metadata"].clone();
    assert_eq!(meta(json!({"finalizers": ["b", "c"]}))["finalizers"], json!(["a", "b", "c"]));
    assert_eq!(meta(json!({"$deleteFromPrimitiveList/finalizers": ["a"]}))["finalizers"], json!(["b"]));
    assert_eq!(
        meta(json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
                    "$setElementOrder/finalizers": ["c", "b"]}))["finalizers"],
        json!(["c", "b"])
    );
    assert_eq!(
        meta(json!({"ownerReferences": [{"uid": "1", "controller": true}]}))["ownerReferences"],
        json!([{"uid": "1", "name": "x", "controller": true}])
    );
}

#[test]
fn every_built_in_kind_has_keys_and_no_custom_one() {
    let key = |group: &str, kind: &str, path: &[&str]| {
        let mut keys = of(group, "v1", kind);
        let mut found = "".to_owned();
        for field in path {
            match rule(keys, field) {
                Some(Rule::Object(inner)) => keys = inner,
                Some(Rule::List { key, item }) => (keys, found) = (item, key.to_owned()),
                Some(Rule::Set) => found = "set".to_owned(),
                None => found = "atomic".to_owned(),
            }
        }
        found
    };
    for (group, kind, path, expected) in [
        ("", "Pod", "spec containers", "name"),
        ("", "Pod", "spec initContainers volumeMounts", "mountPath"),
        ("", "Pod", "spec tolerations", "atomic"),
        ("", "Pod", "spec hostAliases", "ip"),
        ("", "Pod", "status conditions", "type"),
        ("", "Pod", "status podIPs", "ip"),
        ("batch", "Job", "spec template spec containers env", "name"),
        ("batch", "CronJob", "spec jobTemplate spec template spec containers ports", "containerPort"),
        ("apps", "Deployment", "spec template metadata finalizers", "set"),
        ("apps", "StatefulSet", "spec volumeClaimTemplates", "atomic"),
        ("", "Service", "spec ports", "port"),
        ("", "ServiceAccount", "secrets", "name"),
        ("", "Node", "status addresses", "type"),
        ("coordination.k8s.io", "Lease", "metadata ownerReferences", "uid"),
        ("", "ConfigMap", "metadata finalizers", "set"),
    ] {
        let path: Vec<&str> = path.split(' ').collect();
        assert_eq!(key(group, kind, &path), expected, "{kind} {path:?}");
    }
    for (group, kind) in
        [("kubeflow.org", "PyTorchJob"), ("example.com", "Pod"), ("gateway.networking.k8s.io", "Gateway")]
    {
        assert!(of(group, "v1", kind).is_none());
    }
}

/// JSON without `$` keys; with lists only when asked.
fn tree(lists: bool) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let object = proptest::collection::btree_map(
            "[a-d]|spec|containers|name|metadata|finalizers",
            inner.clone(),
            0..4,
        )
        .prop_map(|m| Value::Object(m.into_iter().collect()));
        if lists {
            prop_oneof![object, proptest::collection::vec(inner, 0..4).prop_map(Value::Array)].boxed()
        } else {
            object.boxed()
        }
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let path = "(/([a-d]|0|-|spec)){0,3}";
    (prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]), path, path, tree(true))
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(target in tree(true), patch in tree(true)) {
        let once = merged(target, patch.clone());
        prop_assert_eq!(merged(once.clone(), patch), once);
    }

    #[test]
    fn our_merge_is_the_crates_merge(target in tree(true), patch in tree(true)) {
        let mut theirs = target.clone();
        json_patch::merge(&mut theirs, &patch);
        prop_assert_eq!(merged(target, patch), theirs);
    }

    #[test]
    fn strategic_without_lists_is_merge(target in tree(false), patch in tree(false)) {
        if patch.is_object() {
            prop_assert_eq!(pod(target.clone(), patch.clone()).unwrap(), merged(target, patch));
        }
    }

    #[test]
    fn strategic_twice_is_strategic_once(target in tree(true), patch in tree(true)) {
        if let Ok(once) = pod(target, patch.clone()) {
            prop_assert_eq!(pod(once.clone(), patch).unwrap(), once);
        }
    }

    #[test]
    fn a_failing_json_patch_changes_nothing(target in tree(true), ops in proptest::collection::vec(operation(), 0..6)) {
        let mut result = target.clone();
        if json(&mut result, &Value::Array(ops)).is_err() {
            prop_assert_eq!(result, target);
        }
    }
}
