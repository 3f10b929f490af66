//! What holds for any schema and any object.

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map("[a-d]|spec|metadata|kind", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Members a node may carry beside its type.
fn extras() -> impl Strategy<Value = Value> {
    let extra = prop_oneof![
        any::<bool>().prop_map(|b| json!({"nullable": b})),
        value().prop_map(|v| json!({"default": v})),
        proptest::collection::vec(value(), 0..3).prop_map(|v| json!({"enum": v})),
        "[a-c\\[\\]()*+?.\\\\d{}^$-]{0,6}".prop_map(|p| json!({"pattern": p})),
        prop::sample::select(vec![
            "date-time",
            "date",
            "duration",
            "byte",
            "uuid",
            "uuid4",
            "ipv4",
            "ipv6",
            "cidr",
            "mac",
            "hostname",
            "email",
            "uri",
            "hexcolor",
            "int32",
            "int64",
            "odd"
        ])
        .prop_map(|f| json!({"format": f})),
        (any::<f64>(), any::<bool>())
            .prop_map(|(n, b)| json!({"minimum": n, "exclusiveMinimum": b, "multipleOf": n})),
        (0u64..3).prop_map(|n| json!({"minLength": n, "maxItems": n, "minProperties": n})),
        proptest::collection::vec("[a-d]", 0..2).prop_map(|r| json!({"required": r})),
        Just(json!({"anyOf": [{"enum": ["a"]}, {"required": ["a"]}], "not": {"enum": [1]}})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        prop::sample::select(vec![
            "self == self",
            "size(self) > 1",
            "self.a == 1",
            "has(self.b)",
            "self.all(x, x == 1)",
            "oldSelf == self",
            "self + 1 > 2",
            "self.matches('[')",
            "timestamp(self) > timestamp(self)"
        ])
        .prop_map(|r| json!({"x-kubernetes-validations": [{"rule": r}]})),
        Just(json!({"x-kubernetes-embedded-resource": true})),
        Just(json!({"x-kubernetes-list-type": "set"})),
        value(),
    ];
    proptest::collection::vec(extra, 0..3).prop_map(|list| {
        let mut all = json!({});
        for extra in list.iter().filter(|e| e.is_object()) {
            crate::patch::merge(&mut all, extra);
        }
        all
    })
}

fn node() -> impl Strategy<Value = Value> {
    let scalar = prop::sample::select(vec!["string", "integer", "number", "boolean"])
        .prop_map(|kind| json!({"type": kind}));
    let scalar =
        (prop_oneof![scalar, Just(json!({"x-kubernetes-int-or-string": true}))], extras()).prop_map(both);
    scalar.prop_recursive(3, 16, 3, |inner| {
        let object = proptest::collection::btree_map("[a-d]|spec|metadata", inner.clone(), 0..4)
            .prop_map(|m| json!({"type": "object", "properties": m}));
        let map = inner.clone().prop_map(|v| json!({"type": "object", "additionalProperties": v}));
        let list = inner.prop_map(|v| json!({"type": "array", "items": v}));
        (prop_oneof![object, map, list], extras()).prop_map(both)
    })
}

fn both((mut a, b): (Value, Value)) -> Value {
    crate::patch::merge(&mut a, &b);
    a
}

fn root() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-d]|spec", node(), 0..4)
        .prop_map(|m| json!({"type": "object", "properties": m}))
}

proptest! {
    #[test]
    fn nothing_panics(schema in root(), object in value(), old in value()) {
        if let Ok(schema) = Structural::parse(&schema) {
            let mut object = object;
            let _ = schema.validate(&object, Some(&old));
            schema.prune(&mut object);
            schema.default(&mut object);
            let _ = schema.validate(&object, None);
        }
    }

    #[test]
    fn no_json_is_a_schema_that_panics(schema in value()) {
        let _ = Structural::parse(&schema);
    }

    #[test]
    fn pruning_twice_is_pruning_once(schema in root(), object in value()) {
        if let Ok(schema) = Structural::parse(&schema) {
            let mut once = object;
            schema.prune(&mut once);
            let mut twice = once.clone();
            prop_assert!(schema.prune(&mut twice).is_empty());
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema in root(), object in value()) {
        if let Ok(schema) = Structural::parse(&schema) {
            let mut once = object;
            schema.default(&mut once);
            let mut twice = once.clone();
            schema.default(&mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}
