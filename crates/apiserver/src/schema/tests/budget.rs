//! What rules may cost.

use serde_json::{Value, json};

use super::{parse as schema, show};

/// A list of texts or numbers with a rule.
fn list(rule: &str, bounds: Value, items: Value) -> Value {
    let mut list = json!({"type": "array", "items": items, "x-kubernetes-validations": [{"rule": rule}]});
    list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
    json!({"type": "object", "properties": {"list": list}})
}

const UNIQUE: &str = "self.all(x, self.exists_one(y, x == y))";

/// What a real server says about these is in its words.
#[test]
fn a_definition_is_judged_by_what_its_schema_allows() {
    let text = || json!({"type": "string"});
    for (rule, bounds, items, factor) in [
        (UNIQUE, json!({}), text(), "more than 100x"),
        (UNIQUE, json!({"maxItems": 10_000}), json!({"type": "integer"}), "40.0x"),
        ("self.all(x, x.contains('abcdefghijklm'))", json!({}), text(), "more than 100x"),
        ("self.all(x, x.matches('^[a-z]+$'))", json!({"maxItems": 1000}), json!({"type": "string"}), "62.9x"),
    ] {
        let errors = schema(list(rule, bounds, items)).too_expensive();
        let expected = format!(
            "openAPIV3Schema.properties[list].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds \
             budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
             where arrays, maps, and strings are declared)"
        );
        assert!(show(&errors).contains(&expected), "{rule}: {}", show(&errors));
    }
    for (rule, bounds, items) in [
        (UNIQUE, json!({"maxItems": 100}), json!({"type": "string", "maxLength": 100})),
        ("self.size() < 100", json!({}), text()),
        ("self.all(x, x.startsWith('a'))", json!({"maxItems": 1000}), text()),
        ("self.all(x, x > 0)", json!({}), json!({"type": "integer"})),
        (
            "self.all(x, x.matches('^[a-z]+$'))",
            json!({"maxItems": 1000}),
            json!({"type": "string", "maxLength": 63}),
        ),
        ("self == oldSelf", json!({"maxItems": 10}), text()),
    ] {
        let errors = schema(list(rule, bounds, items)).too_expensive();
        assert!(errors.is_empty(), "{rule}: {}", show(&errors));
    }
}

#[test]
fn rules_of_items_count_as_often_as_there_can_be_items() {
    let ruled = |bounds: Value| {
        let rule = json!([{"rule": "self.a.all(x, x > 0)"}]);
        let a = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}});
        let item = json!({"type": "object", "properties": {"a": a}, "x-kubernetes-validations": rule});
        let mut list = json!({"type": "array", "items": item});
        list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"list": list}})
    };
    assert!(schema(ruled(json!({"maxItems": 100}))).too_expensive().is_empty());
    for bounds in [json!({"maxItems": 10_000}), json!({})] {
        let errors = show(&schema(ruled(bounds)).too_expensive());
        let path = "openAPIV3Schema.properties[list].items.x-kubernetes-validations[0].rule";
        assert!(
            errors.starts_with(&format!("{path}: Forbidden: estimated rule cost exceeds budget")),
            "{errors}"
        );
    }
}

#[test]
fn all_rules_of_a_definition_share_a_budget() {
    let rule = json!({"rule": "self.all(x, x > 0)"});
    let one = json!({"type": "array", "maxItems": 1_000_000, "items": {"type": "integer"}, "x-kubernetes-validations": [rule]});
    let many = |count: usize| {
        let properties: serde_json::Map<_, _> = (0..count).map(|n| (format!("p{n}"), one.clone())).collect();
        schema(json!({"type": "object", "properties": properties})).too_expensive()
    };
    assert!(many(10).is_empty());
    let errors = many(40);
    assert_eq!(errors.len(), 5);
    let last = show(&errors[4..]);
    assert!(
        last.starts_with("openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule"),
        "{last}"
    );
    assert!(show(&errors[..1]).contains("contributed to estimated rule & messageExpression cost total"));
}

#[test]
fn an_object_is_judged_by_what_it_has() {
    let numbers = schema(list(UNIQUE, json!({}), json!({"type": "integer"})));
    let of = |count: i64| json!({"list": (0..count).collect::<Vec<_>>()});
    assert_eq!(show(&numbers.validate(&of(100), None)), "");
    let errors = show(&numbers.validate(&of(1000), None));
    assert_eq!(
        errors,
        "list: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules \
         will be run due to call cost exceeds limit for rule: self.all(x, self.exists_one(y, x == y))"
    );
}

/// Without a budget this would take minutes.
#[test]
fn rules_that_would_run_for_minutes_are_not_run() {
    let cubed = "self.all(x, self.all(y, self.all(z, x + y != z || true)))";
    let numbers = schema(list(cubed, json!({}), json!({"type": "integer"})));
    let object = json!({"list": (0..100_000).collect::<Vec<_>>()});
    assert!(show(&numbers.validate(&object, None)).contains("call cost exceeds limit"));
    // It copies its list in each round.
    let gathers = "self.map(x, x + 1).size() > 0";
    let numbers = schema(list(gathers, json!({}), json!({"type": "integer"})));
    assert!(show(&numbers.validate(&object, None)).contains("call cost exceeds limit"));
    let texts = schema(list("self.all(x, self[0].contains(x))", json!({}), json!({"type": "string"})));
    let object = json!({"list": vec!["a".repeat(10_000); 100]});
    assert!(show(&texts.validate(&object, None)).contains("call cost exceeds limit"));
}

#[test]
fn the_rules_of_an_object_share_a_budget() {
    let item = json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x == y))"}]});
    let lists = schema(json!({"type": "object", "properties": {"lists": {"type": "array", "items": item}}}));
    let of = |count: usize| json!({"lists": vec![(0..300).collect::<Vec<_>>(); count]});
    assert_eq!(show(&lists.validate(&of(5), None)), "");
    let errors = show(&lists.validate(&of(100), None));
    assert!(
        errors.ends_with(
            "Invalid value: \"array\": validation failed due to running out of cost budget, no further validation rules \
             will be run"
        ),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "no further rules are run: {errors}");
}
