//! Owners through creates, updates and patches.

use serde_json::{Value, json};

use super::super::entries::Operation::Update;
use super::super::known::blank;
use super::super::set::Set;
use super::super::shape::Shape;
use super::super::{compare, known, reconcile};
use super::World;
use crate::types;

#[test]
fn a_writer_owns_what_it_changed() {
    let mut world = World::new();
    world.update("a", |object| {
        object["metadata"]["labels"] = json!({"l": "1"});
        object["metadata"]["finalizers"] = json!(["x/y"]);
        object["spec"] =
            json!({"image": "x", "tags": ["t"], "args": ["1"], "items": [{"name": "i", "value": "v"}]});
        object["status"] = json!({"phase": "ignored"});
    });
    assert_eq!(
        world.owners(),
        json!([["a", "Update", {
            "f:metadata": {
                "f:finalizers": {".": {}, "v:\"x/y\"": {}},
                "f:labels": {".": {}, "f:l": {}},
            },
            "f:spec": {
                ".": {}, "f:args": {}, "f:image": {}, "f:tags": {".": {}, "v:\"t\"": {}},
                "f:items": {".": {}, "k:{\"name\":\"i\"}": {".": {}, "f:name": {}, "f:value": {}}},
            },
        }]])
    );
    world.now = 1;
    world.update("b", |object| {
        object["spec"]["image"] = json!("y");
        object["spec"]["items"] = json!([]);
    });
    assert_eq!(world.owned("b", Update), [".spec.image"]);
    assert!(!world.owned("a", Update).iter().any(|path| path.contains("items[") || path == ".spec.image"));
    let list = &world.object["metadata"]["managedFields"];
    assert_eq!(
        (&list[0]["time"], &list[1]["time"]),
        (&json!("2026-01-01T00:00:00Z"), &json!("2026-01-01T00:00:01Z"))
    );
}

#[test]
fn removing_moves_no_time_and_makes_no_owner() {
    let mut world = World::new();
    world.update("a", |object| object["spec"] = json!({"image": "x", "replicas": 1}));
    world.now = 7;
    world.update("b", |object| {
        object["spec"].as_object_mut().unwrap().remove("image");
    });
    assert_eq!(world.owned("a", Update), [".spec", ".spec.replicas"]);
    let list = world.object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["time"]), (1, &json!("2026-01-01T00:00:00Z")));
    let before = world.object.clone();
    world.update("c", |_| {});
    assert_eq!(world.object, before);
}

#[test]
fn doors_are_owners_of_their_own() {
    let mut world = World::new();
    world.update("a", |object| object["spec"] = json!({"image": "x"}));
    world.update_status("a", |object| {
        object["status"] = json!({"phase": "Up"});
        object["spec"]["image"] = json!("ignored");
        object["metadata"]["managedFields"] = json!([]);
    });
    let list = world.object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[1]["subresource"], "status");
    assert_eq!(list[1]["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
    assert_eq!(list[0]["fieldsV1"], json!({"f:spec": {".": {}, "f:image": {}}}));
}

#[test]
fn clients_may_write_the_owners() {
    let entry = |manager: &str, fields: Value| {
        json!({"manager": manager, "operation": "Update", "apiVersion": super::V1, "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": fields})
    };
    let mut world = World::new();
    world.update("a", |object| object["spec"] = json!({"image": "x"}));
    world.update("b", |object| {
        object["metadata"]["managedFields"] = json!([entry("z", json!({"f:spec": {"f:image": {}}}))]);
    });
    assert_eq!(world.owners(), json!([["z", "Update", {"f:spec": {"f:image": {}}}]]));
    for wrong in [
        json!([entry("y", json!({"spec": {}}))]),
        json!([entry("y", json!(1))]),
        json!([entry("y", json!({"f:a": 1}))]),
        json!([{"manager": "y"}]),
        json!([{"manager": "y", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
        json!([{"manager": "y", "operation": "Update", "fieldsType": "FieldsV1"}]),
    ] {
        world.update("b", |object| object["metadata"]["managedFields"] = wrong.clone());
        assert_eq!(world.owners()[0][0], "z", "{wrong}");
    }
    world.update("b", |object| object["metadata"]["managedFields"] = json!([{}]));
    assert_eq!(world.owners(), json!([]));
    world.update("b", |object| object["spec"]["image"] = json!("y"));
    assert_eq!(world.owners(), json!([]), "nobody tracks what was forgotten");
}

#[test]
fn many_writers_become_one() {
    let mut world = World::new();
    for n in 0..15u32 {
        world.now = n;
        world.update(&format!("m{n:02}"), |object| object["spec"]["env"][format!("K{n}")] = json!("1"));
    }
    let owners = world.owners();
    let names: Vec<&str> = owners.as_array().unwrap().iter().map(|o| o[0].as_str().unwrap()).collect();
    assert_eq!(names, ["ancient-changes", "m06", "m07", "m08", "m09", "m10", "m11", "m12", "m13", "m14"]);
    let old = world.owned("ancient-changes", Update);
    assert!(old.contains(&".spec.env.K0".to_owned()) && old.contains(&".spec.env.K5".to_owned()), "{old:?}");
    assert_eq!(world.object["metadata"]["managedFields"][0]["time"], "2026-01-01T00:00:05Z");
}

#[test]
fn parts_that_are_always_there_have_no_owner() {
    let message = types::of("apps", "v1", "Deployment").unwrap();
    let shape = Shape::Known(known::Known::Object(message));
    let new = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {}, "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }},
        },
    });
    let changes = compare::compare(shape, &blank(message), &new).unwrap();
    let mut own = changes.into_taken();
    super::super::update::strip(&mut own);
    assert_eq!(
        own.into_value(),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                    "f:spec": {
                        "f:containers": {"k:{\"name\":\"c\"}": {
                            ".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
                            "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                                {".": {}, "f:containerPort": {}}},
                        }},
                        "f:volumes": {".": {}, "k:{\"name\":\"v\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}},
                    },
                },
            },
        })
    );
}

#[test]
fn places_that_became_one_value_have_one_owner() {
    let schema = super::schema();
    let shape = Shape::Resource(schema.view());
    let old = json!({"f:spec": {"f:args": {".": {}, "v:\"a\"": {}}, "f:limits": {"f:a": {}}, "f:env": {"f:A": {}}}});
    let set = reconcile::reconcile(shape, Set::parse(&old).unwrap());
    assert_eq!(set.into_value(), json!({"f:spec": {"f:args": {}, "f:limits": {}, "f:env": {"f:A": {}}}}));
}
