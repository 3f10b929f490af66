//! Applied configurations.

use serde_json::{Value, json};

use super::super::ApplyError;
use super::super::entries::Operation::{Apply, Update};
use super::{World, conflicts};

#[test]
fn what_is_no_longer_applied_goes_unless_somebody_else_has_it() {
    let mut world = World::new();
    world
        .apply("a", json!({"spec": {"image": "x", "replicas": 1, "env": {"A": "1", "B": "2"}}}), false)
        .unwrap();
    assert_eq!(world.name(), "w");
    assert_eq!(
        world.owners(),
        json!([["a", "Apply", {"f:spec": {"f:env": {"f:A": {}, "f:B": {}}, "f:image": {}, "f:replicas": {}}}]])
    );
    world.apply("b", json!({"spec": {"env": {"B": "2"}}}), false).unwrap();
    world.apply("a", json!({"spec": {"image": "x"}}), false).unwrap();
    assert_eq!(*world.spec(), json!({"image": "x", "env": {"B": "2"}}));
    world.apply("b", json!({}), false).unwrap();
    assert_eq!(*world.spec(), json!({"image": "x"}));
    assert_eq!(world.owners(), json!([["a", "Apply", {"f:spec": {"f:image": {}}}]]));
    world.apply("a", json!({}), false).unwrap();
    assert_eq!(world.object.get("spec"), None);
    assert_eq!(world.owners(), json!([]));
}

#[test]
fn changing_what_others_own_is_a_conflict() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"image": "x", "env": {"A": "1"}}}), false).unwrap();
    world.update("u", |object| object["spec"]["replicas"] = json!(2));
    let before = world.object.clone();
    let config = json!({"spec": {"image": "y", "env": {"A": "2"}, "replicas": 3}});
    let error = world.apply("b", config.clone(), false).unwrap_err();
    assert_eq!(
        conflicts(&error),
        ["\"a\" .spec.image", "\"a\" .spec.env.A", "\"u\" using example.com/v1 .spec.replicas"]
    );
    assert_eq!(world.object, before);
    world.apply("b", config, true).unwrap();
    assert_eq!(*world.spec(), json!({"image": "y", "env": {"A": "2"}, "replicas": 3}));
    assert!(world.owned("a", Apply).is_empty() && world.owned("u", Update).is_empty());
    // The same value is no conflict, and is then owned by both.
    world.apply("a", json!({"spec": {"image": "y"}}), false).unwrap();
    assert_eq!(world.owned("a", Apply), [".spec.image"]);
    assert!(world.owned("b", Apply).contains(&".spec.image".to_owned()));
}

#[test]
fn lists_merge_by_their_type() {
    for (live, applied, merged) in [
        // Sets keep what others added, and the order of the configuration where it says one.
        (json!({"tags": ["a", "b", "c"]}), json!({"tags": ["c", "a"]}), json!({"tags": ["b", "c", "a"]})),
        (json!({"tags": ["a"]}), json!({"tags": ["b", "c"]}), json!({"tags": ["a", "b", "c"]})),
        (json!({"args": ["a", "b"]}), json!({"args": ["c"]}), json!({"args": ["c"]})),
        (
            json!({"items": [{"name": "x", "value": "1"}, {"name": "y"}]}),
            json!({"items": [{"name": "y", "value": "2"}, {"name": "z"}]}),
            json!({"items": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}, {"name": "z"}]}),
        ),
        // A key that is left out has its default.
        (
            json!({"ports": [{"port": 80, "protocol": "TCP"}]}),
            json!({"ports": [{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP"}]}),
            json!({"ports": [{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP"}]}),
        ),
        (json!({"limits": {"a": "1"}}), json!({"limits": {"b": "2"}}), json!({"limits": {"b": "2"}})),
        (
            json!({"free": {"a": {"x": 1}, "l": [1]}}),
            json!({"free": {"a": {"y": 2}, "l": [2]}}),
            json!({"free": {"a": {"x": 1, "y": 2}, "l": [2]}}),
        ),
        (json!({"either": 1}), json!({"either": "50%"}), json!({"either": "50%"})),
    ] {
        let mut world = World::new();
        world.update("u", |object| object["spec"] = live.clone());
        world.apply("a", json!({"spec": applied}), true).unwrap();
        assert_eq!(*world.spec(), merged, "{live} {applied}");
    }
}

#[test]
fn items_go_with_their_last_owner() {
    let mut world = World::new();
    let item = |name: &str, value: &str| json!({"name": name, "value": value});
    world
        .apply("a", json!({"spec": {"tags": ["x", "y"], "items": [item("p", "1"), item("q", "2")]}}), false)
        .unwrap();
    world.update("u", |object| {
        object["spec"]["items"][0]["args"] = json!(["v"]);
        object["spec"]["items"].as_array_mut().unwrap().push(item("r", "3"));
    });
    world.apply("b", json!({"spec": {"items": [{"name": "q"}]}}), false).unwrap();
    world.apply("a", json!({"spec": {"tags": ["y"], "items": []}}), false).unwrap();
    // A field inside does not keep an item. Of one that somebody else applied, what was this owner's goes.
    assert_eq!(*world.spec(), json!({"tags": ["y"], "items": [{"name": "q"}, item("r", "3")]}));
    world.apply("a", json!({}), false).unwrap();
    assert_eq!(*world.spec(), json!({"items": [{"name": "q"}, item("r", "3")]}));
}

#[test]
fn duplicates_are_refused() {
    let mut world = World::new();
    let at = "failed to create typed patch object (/w; example.com/v1, Kind=Widget): ";
    for (spec, why) in [
        (json!({"tags": ["a", "a"]}), ".spec.tags: duplicate entries for key [=\"a\"]"),
        (
            json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}),
            ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]",
        ),
        (json!({"nothing": 1}), ".spec.nothing: field not declared in schema"),
        (json!({"replicas": "1"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"image": 1}), ".spec.image: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"env": 1}), ".spec.env: expected map, got &{1}"),
        (json!({"tags": {"a": 1}}), ".spec.tags: expected list, got &{map[a:1]}"),
        (
            json!({"items": [{"value": "x"}]}),
            ".spec.items: element 0: associative list with keys has an element that omits all key fields [\"name\"] \
             (and doesn't have default values for any key fields)",
        ),
        (
            json!({"items": [null]}),
            ".spec.items: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"image": 1, "replicas": "1"}),
            "errors:\n  .spec.image: expected string, got &value.valueUnstructured{Value:1}\n  .spec.replicas: \
             expected numeric (int or float), got string",
        ),
    ] {
        let error = world.apply("a", json!({"spec": spec}), false).unwrap_err();
        assert_eq!(error, ApplyError::Failed(format!("{at}{why}")));
    }
    let managed = json!({"metadata": {"managedFields": []}});
    let error = world.apply("a", managed, false).unwrap_err();
    assert_eq!(error, ApplyError::Bad("metadata.managedFields must be nil".into()));
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut world = World::new();
    world.update("u", |object| {
        object["spec"] = json!({"image": "x"});
        object["metadata"]["labels"] = json!({"a": "b"});
    });
    world.update("u", |object| object["metadata"]["managedFields"] = json!([]));
    assert_eq!(world.owners(), json!([]));
    let error = world.apply("a", json!({"spec": {"image": "y"}}), false).unwrap_err();
    assert_eq!(conflicts(&error), ["\"before-first-apply\" using example.com/v1 .spec.image"]);
    world.apply("a", json!({"spec": {"replicas": 1}}), false).unwrap();
    assert_eq!(
        world.owned("before-first-apply", Update),
        [".spec", ".metadata.labels", ".metadata.labels.a", ".spec.image"]
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_on_its_own() {
    let record = "kubectl.kubernetes.io/last-applied-configuration";
    let config =
        json!({"apiVersion": super::V1, "kind": "Widget", "metadata": {"name": "w"}, "spec": {"image": "x"}});
    let mut world = World::new();
    world.update("kubectl-client-side-apply", |object| {
        object["spec"] = json!({"image": "x", "replicas": 1});
        object["metadata"]["annotations"] = json!({record: config.to_string()});
    });
    let error = world.apply("other", json!({"spec": {"image": "y"}}), false).unwrap_err();
    assert_eq!(conflicts(&error).len(), 1);
    let error = world.apply("kubectl", json!({"spec": {"image": "y", "replicas": 2}}), false).unwrap_err();
    assert_eq!(conflicts(&error), ["\"kubectl-client-side-apply\" using example.com/v1 .spec.replicas"]);
    world.apply("kubectl", json!({"spec": {"image": "y"}}), false).unwrap();
    assert_eq!(world.spec()["image"], "y");
    let kept: Value =
        serde_json::from_str(world.object["metadata"]["annotations"][record].as_str().unwrap()).unwrap();
    assert_eq!(kept["spec"], json!({"image": "y"}));
}

#[test]
fn an_owner_who_changes_nothing_gets_no_time() {
    let mut world = World::new();
    world.apply("a", json!({"spec": {"image": "x"}}), false).unwrap();
    let first = world.object.clone();
    world.now = 5;
    world.apply("a", json!({"spec": {"image": "x"}}), false).unwrap();
    assert_eq!(world.object, first);
    world.apply("b", json!({"spec": {"image": "x"}}), false).unwrap();
    let list = &world.object["metadata"]["managedFields"];
    assert_eq!((&list[0]["manager"], list[0].get("time")), (&json!("b"), None));
    assert_eq!(list[1]["time"], "2026-01-01T00:00:00Z");
}
