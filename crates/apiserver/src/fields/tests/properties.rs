//! What holds for every sequence of writes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::collect::collect;
use super::super::compare::{compare, same};
use super::super::set::Set;
use super::super::shape::Shape;
use super::{World, schema};

fn text() -> impl Strategy<Value = Value> {
    "[a-c]".prop_map(Value::from)
}

/// Members of a spec, each there or not.
fn spec() -> impl Strategy<Value = Value> {
    let some = |strategy: BoxedStrategy<Value>| proptest::option::of(strategy);
    let list = |item: BoxedStrategy<Value>, key: &'static str| {
        proptest::collection::vec(item, 0..4).prop_map(move |items| {
            let mut seen = Vec::new();
            let keep = |item: &Value| {
                let id = if key.is_empty() { item.clone() } else { item[key].clone() };
                let fresh = !seen.contains(&id);
                seen.push(id);
                fresh
            };
            Value::Array(items.into_iter().filter(keep).collect())
        })
    };
    let item = ("[a-d]", proptest::option::of("[a-c]")).prop_map(|(name, value)| match value {
        Some(value) => json!({"name": name, "value": value}),
        None => json!({"name": name}),
    });
    let env = proptest::collection::btree_map("[A-D]", "[a-c]", 0..4).prop_map(|map| json!(map));
    let nested = (proptest::option::of("[a-c]"), proptest::option::of("[a-c]"))
        .prop_map(|(a, x)| json!({"a": a, "deep": {"x": x}}));
    let free = prop_oneof![text(), (0..3i32).prop_map(|n| json!({"n": n, "l": [n]})), Just(json!({})),]
        .prop_map(|value| json!({"k": value}));
    (
        some(text().boxed()),
        some(list(text().boxed(), "").boxed()),
        some(list(item.boxed(), "name").boxed()),
        some(env.boxed()),
        some(nested.boxed()),
        some(free.boxed()),
    )
        .prop_map(|(image, tags, items, env, nested, free)| {
            let all = [
                ("image", image),
                ("tags", tags),
                ("items", items),
                ("env", env),
                ("nested", nested),
                ("free", free),
            ];
            let mut spec =
                Value::Object(all.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect());
            crate::object::drop_nulls(&mut spec);
            spec
        })
}

/// Who writes what: by applying, or by replacing.
fn writes() -> impl Strategy<Value = Vec<(bool, u8, Value)>> {
    proptest::collection::vec((any::<bool>(), 0..3u8, spec()), 1..6)
}

fn run(world: &mut World, writes: &[(bool, u8, Value)]) {
    for (applies, who, spec) in writes {
        let name = format!("m{who}");
        if *applies {
            world.apply(&name, json!({"spec": spec}), true).unwrap();
        } else {
            world.update(&name, |object| object["spec"] = spec.clone());
        }
    }
}

fn fields() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        "f:[a-c.]{1,2}",
        "[0-9]{1,2}".prop_map(|n| format!("k:{{\"a\":{n}}}")),
        "[<&a-c]{0,2}".prop_map(|t| format!("v:{}", Value::from(t))),
        "i:[0-9]",
        Just(".".to_owned()),
        "[a-z]:x",
    ];
    Just(json!({})).prop_recursive(4, 24, 4, move |inner| {
        proptest::collection::btree_map(key.clone(), inner, 0..4).prop_map(|map| json!(map))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn stored_sets_are_read_as_they_were_written(fields in fields()) {
        if let Ok(set) = Set::parse(&fields) {
            let written = set.clone().into_value();
            prop_assert_eq!(Set::parse(&written).unwrap(), set.clone());
            prop_assert_eq!(set.touches(&written), !set.is_empty());
        }
    }

    #[test]
    fn any_json_is_read_as_fields_without_harm(text in "[\\{\\}\\[\\]\",:fkvi.a0]{0,40}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = Set::parse(&value);
        }
    }

    #[test]
    fn sets_follow_the_laws(a in fields(), b in fields()) {
        let (Ok(a), Ok(b)) = (Set::parse(&a), Set::parse(&b)) else { return Ok(()) };
        let mut both = a.clone();
        both.union(b.clone());
        let mut swapped = b.clone();
        swapped.union(a.clone());
        prop_assert_eq!(&both, &swapped);
        let mut rest = both.clone();
        rest.subtract(&b);
        prop_assert!(rest.intersection(&b).is_empty());
        rest.union(b.clone());
        prop_assert_eq!(&rest, &both);
        let mut only = a.clone();
        only.subtract(&b);
        let mut again = only.clone();
        again.union(a.intersection(&b));
        prop_assert_eq!(again, a);
    }

    #[test]
    fn applying_twice_is_applying_once(before in writes(), spec in spec()) {
        let mut world = World::new();
        run(&mut world, &before);
        world.apply("a", json!({"spec": spec}), true).unwrap();
        let once = world.object.clone();
        world.now = 9;
        world.apply("a", json!({"spec": spec}), true).unwrap();
        prop_assert_eq!(&world.object, &once);
    }

    #[test]
    fn owners_without_overlap_do_not_care_who_is_first(
        a in proptest::collection::btree_map("A[a-d]", "[a-c]", 0..4),
        b in proptest::collection::btree_map("B[a-d]", "[a-c]", 0..4),
    ) {
        let (mut left, mut right) = (World::new(), World::new());
        left.apply("a", json!({"spec": {"env": a}}), false).unwrap();
        left.apply("b", json!({"spec": {"env": b}}), false).unwrap();
        right.apply("b", json!({"spec": {"env": b}}), false).unwrap();
        right.apply("a", json!({"spec": {"env": a}}), false).unwrap();
        prop_assert_eq!(left.spec(), right.spec());
    }

    #[test]
    fn applying_nothing_takes_back_what_was_applied(before in writes(), spec in spec()) {
        let mut world = World::new();
        run(&mut world, &before);
        // Only what nobody had is taken back: start from an object without what is applied.
        let shape_of = schema();
        let shape = Shape::Resource(shape_of.view());
        let old = world.object.clone();
        let applied = collect(shape, &json!({"spec": spec})).unwrap();
        let there = collect(shape, &old).unwrap();
        if !applied.intersection(&there).is_empty() {
            return Ok(());
        }
        world.apply("new", json!({"spec": spec}), true).unwrap();
        world.apply("new", json!({}), true).unwrap();
        let left = compare(shape, &without_empty(old), &without_empty(world.object.clone())).unwrap();
        let left: Vec<String> = left.added.paths().into_iter().chain(left.modified.paths())
            .filter(|path| path != ".metadata.managedFields").collect();
        prop_assert!(left.is_empty(), "{:?} of {}", left, world.object);
    }

    #[test]
    fn owners_own_what_is_there_and_what_they_set(writes in writes()) {
        let mut world = World::new();
        let shape_of = schema();
        let shape = Shape::Resource(shape_of.view());
        for (applies, who, spec) in &writes {
            let before = world.live();
            run(&mut world, &[(*applies, *who, spec.clone())]);
            // A change belongs to whoever made it.
            let changes = compare(shape, &before, &world.object).unwrap();
            let list = world.object["metadata"].get("managedFields").cloned();
            for entry in super::super::entries::stored(list).unwrap() {
                let mine = entry.manager == format!("m{who}");
                let taken = changes.taken_of(&entry.set());
                prop_assert!(mine || taken.is_empty(), "{} has {:?}", entry.manager, taken.paths());
                // Who applies an empty part owns it, even where it goes because nothing is left in it.
                let gone = entry.set().intersection(&changes.removed);
                prop_assert!(gone.is_empty() || (mine && *applies), "{:?}", gone.paths());
            }
        }
    }

    #[test]
    fn equal_objects_do_not_differ(spec in spec(), other in spec()) {
        let shape_of = schema();
        let shape = Shape::Resource(shape_of.view());
        let (a, b) = (json!({"spec": spec}), json!({"spec": other}));
        prop_assert!(compare(shape, &a, &a).unwrap().is_empty());
        let changes = compare(shape, &a, &b).unwrap();
        prop_assert!(!changes.is_empty() || same(&a, &b) || reordered(&spec, &other));
    }
}

/// An object without parts that have nothing in them: nobody owns that they are there.
fn without_empty(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        let parts = std::mem::take(map).into_iter().map(|(name, part)| (name, without_empty(part)));
        let is_empty = |part: &Value| {
            part.is_null()
                || part.as_object().is_some_and(serde_json::Map::is_empty)
                || part.as_array().is_some_and(Vec::is_empty)
        };
        *map = parts.filter(|(_, part)| !is_empty(part)).collect();
    }
    value
}

/// Whether lists that are told apart by item differ in their order at most.
fn reordered(a: &Value, b: &Value) -> bool {
    let sorted = |spec: &Value| {
        let mut spec = spec.clone();
        for field in ["tags", "items"] {
            if let Some(list) = spec.get_mut(field).and_then(Value::as_array_mut) {
                list.sort_by_key(ToString::to_string);
            }
        }
        spec
    };
    same(&sorted(a), &sorted(b))
}
