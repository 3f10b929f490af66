//! Parts that are read once, however often they occur.

use std::sync::Arc;

use super::*;

/// The node of a property at the root.
fn property<'a>(schema: &'a Structural, name: &str) -> &'a Arc<Node> {
    schema.root.properties.get(name).unwrap()
}

#[test]
fn equal_parts_are_one_in_a_definition_and_across() {
    let pod = json!({"type": "object", "properties": {"image": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}}});
    let one = schema(json!({"a": pod, "b": pod, "n": {"type": "integer"}}));
    let other = schema(json!({"template": pod}));
    assert!(Arc::ptr_eq(property(&one, "a"), property(&one, "b")));
    assert!(Arc::ptr_eq(property(&one, "a"), property(&other, "template")));
    let number = property(&one, "a").properties.get("n").unwrap();
    assert!(Arc::ptr_eq(number, property(&one, "n")));
    // Errors still name the place.
    let bad = json!({"a": {"image": 1}, "b": {"n": "x"}});
    let told = show(&one.validate(&bad, None));
    assert!(told.contains("a.image: Invalid value") && told.contains("b.n: Invalid value"), "{told}");
}

#[test]
fn what_is_wrong_twice_is_told_twice() {
    let bad = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
    let wrong = json!({"type": "object", "properties": {"x": bad, "y": bad}});
    for _ in 0..2 {
        let told = show(&Structural::parse(&wrong).unwrap_err());
        for name in ["x", "y"] {
            let path = format!("openAPIV3Schema.properties[{name}].properties[a].pattern");
            assert!(told.contains(&path), "{told}");
        }
    }
}

#[test]
fn a_rule_that_is_right_in_one_place_may_be_wrong_in_another() {
    let fixed =
        json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let right = json!({"type": "object", "properties": {"a": fixed}});
    assert!(Structural::parse(&right).is_ok());
    let in_a_list = json!({"type": "object", "properties": {
        "a": fixed,
        "list": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"a": fixed}}},
    }});
    let told = show(&Structural::parse(&in_a_list).unwrap_err());
    assert!(told.contains("oldSelf cannot be used") && told.contains("properties[list].items"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_part_may_be_too_deep_in_one_place_only() {
    let wrap = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    let part = (0..10).fold(json!({"type": "string", "maxLength": 77}), |inner, _| wrap(inner));
    assert!(Structural::parse(&part).is_ok());
    let deep = (0..MAX_DEPTH - 5).fold(part, |inner, _| wrap(inner));
    let told = show(&Structural::parse(&deep).unwrap_err());
    assert!(told.contains("nested too deeply"), "{told}");
}
