//! Rules in CEL: what they see, what they say, and what is refused before it is used.

use super::*;

/// A root with these rules over a spec of all types.
fn ruled(rules: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
    "type": "object",
    "x-kubernetes-validations": rules,
    "properties": {
        "n": {"type": "integer"}, "f": {"type": "number"}, "s": {"type": "string"}, "b": {"type": "boolean"},
        "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"},
        "y": {"type": "string", "format": "byte"}, "q": {"x-kubernetes-int-or-string": true},
        "a_b": {"type": "string"}, "c-d": {"type": "string"}, "namespace": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "null": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

fn eval(rule: &str, spec: Value, old: Option<Value>) -> String {
    let schema = parse(ruled(json!([{"rule": rule, "message": "no"}])));
    let old = old.map(|spec| json!({ "spec": spec }));
    show(&schema.validate(&json!({ "spec": spec }), old.as_ref()))
}

#[test]
fn rules_hold_or_not() {
    let spec = json!({"n": 3, "f": 2, "s": "abc", "b": true, "t": "2024-05-01T00:00:00Z", "d": "90m", "y": "YWJj",
        "q": "25%", "a_b": "u", "c-d": "v", "namespace": "w", "list": [{"n": 1}, {"n": 2}],
        "map": {"x-y": 1, "z": 2}, "null": null, "free": {"deep": {"er": 1}}});
    for rule in [
        "self.n == 3 && self.f == 2.0",
        "self.f < 2.5",
        "self.f < 3 && self.n > 2.5",
        "self.s.startsWith('ab') && self.s.matches('^a.c$') && size(self.s) == 3",
        "self.t < timestamp('2025-01-01T00:00:00Z')",
        "self.d == duration('1h30m')",
        "size(self.y) == 3",
        "type(self.q) == string ? self.q == '25%' : self.q == 25",
        "self.a_b == 'u' && self.c__dash__d == 'v' && self.__namespace__ == 'w'",
        "self.list.all(i, i.n > 0) && self.list.exists_one(i, i.n == 2)",
        "self.list.map(i, i.n).sum() == 3",
        "self.map['x-y'] == 1 && 'z' in self.map && self.map.all(k, self.map[k] > 0)",
        "has(self.n) && !has(self.map.nope)",
        "dyn(self.__null__) == null",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "self.map.all(k, v, k != '' && v > 0) && self.map.exists(k, v, k == 'z' && v == 2)",
        "!self.map.all(k, v, v > 1) && self.map.existsOne(k, v, v > 1)",
        "self.list.all(i, item, i + 1 == item.n) && !self.list.exists(i, item, i == item.n)",
        "self.map.transformList(k, v, v > 1, k) == ['z']",
        "self.map.transformMap(k, v, v + 1) == {'x-y': 2, 'z': 3}",
        "self.list.transformMapEntry(i, item, {string(item.n): i}) == {'1': 0, '2': 1}",
        "self.list.sortBy(item, -item.n).map(item, item.n) == [2, 1]",
        "self.?s.optMap(v, v + 'd').optMap(v, v + 'e').hasValue()",
        "self.?s.optFlatMap(v, optional.of(v)).hasValue()",
        "self.?s.optMap(v, v + 'd').optMap(v, v + 'e').optFlatMap(v, optional.of(v.size())).orValue(0) == 5",
        "self.?map.z.orValue(0) == 2 && self.?map['x-y'].orValue(0) == 1 && !self.?map.nope.hasValue()",
        "self.list.first().n.orValue(0) == 1 && self.?s.optMap(v, {'k': v}).k.orValue('') == 'abc'",
        "self.namespace == 'w' && !!self.b && !(!!!self.b)",
        "self.?s.orValue('x') == 'abc'",
        "self.?s.optMap(v, v + 'd').orValue('x') == 'abcd'",
        "dyn(self.n) == 3",
        "self.n in [1, 2, 3]",
        "[1, 2].all(x, [3, 4].all(y, x < y && self.n > 0))",
    ] {
        assert_eq!(eval(rule, spec.clone(), None), "", "{rule}");
    }
    let absent = "!self.?s.hasValue() && self.?map.z.orValue(7) == 7 && self.?list[0].n.orValue(7) == 7";
    assert_eq!(eval(absent, json!({}), None), "");
    assert_eq!(eval("self.n > 3", spec.clone(), None), "spec: Invalid value: no");
    assert_eq!(eval("self.n / 0 == 1", spec.clone(), None).split(" evaluating").nth(1), Some(" rule: no"));
    assert!(eval("self.map.missing == 1", spec, None).contains("evaluating rule"));
}

#[test]
fn messages_reasons_and_places() {
    for (rule, expected, reason) in [
        (json!({"rule": "self.n > 3"}), "spec: Invalid value: failed rule: self.n > 3", "FieldValueInvalid"),
        (
            json!({"rule": "self.n > 3", "message": "m", "messageExpression": "'n is ' + string(self.n)"}),
            "spec: Invalid value: n is 1",
            "FieldValueInvalid",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "messageExpression": "string(self.map['nope'])"}),
            "spec: Invalid value: m",
            "FieldValueInvalid",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "messageExpression": "'two\\nlines'"}),
            "spec: Invalid value: m",
            "FieldValueInvalid",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "reason": "FieldValueForbidden"}),
            "spec: Forbidden: m",
            "FieldValueForbidden",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".s"}),
            "spec.s: Required value: m",
            "FieldValueRequired",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "reason": "FieldValueDuplicate"}),
            "spec: Duplicate value",
            "FieldValueDuplicate",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "fieldPath": "['c-d']"}),
            "spec.c-d: Invalid value: m",
            "FieldValueInvalid",
        ),
        (
            json!({"rule": "self.n > 3", "message": "m", "fieldPath": ".map.k"}),
            "spec.map[k]: Invalid value: m",
            "FieldValueInvalid",
        ),
    ] {
        let errors = parse(ruled(json!([rule]))).validate(&json!({"spec": {"n": 1, "map": {}}}), None);
        assert_eq!(show(&errors), expected, "{rule}");
        assert_eq!(errors[0].reason.to_string(), reason);
    }
}

#[test]
fn rules_that_do_not_compile() {
    for (rule, expected) in [
        (
            json!({"rule": "self.n >"}),
            "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.n \\u003e\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ",
        ),
        (json!({"rule": ""}), "x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        (json!({"rule": "self.m == 1"}), "undefined field 'm'"),
        (json!({"rule": "has(self.m)"}), "undefined field 'm'"),
        (json!({"rule": "self.list.all(i, i.m == 1)"}), "undefined field 'm'"),
        (json!({"rule": "self.list[0].m == 1"}), "undefined field 'm'"),
        (json!({"rule": "self.s.m == 1"}), "type 'string' does not support field selection"),
        (json!({"rule": "self.free.deep.er == 1"}), "undefined field 'deep'"),
        (json!({"rule": "self.s"}), "cel expression must evaluate to a bool"),
        (json!({"rule": "true", "messageExpression": "1"}), "messageExpression must evaluate to a string"),
        (json!({"rule": "other == 1"}), "undeclared reference to 'other'"),
        (json!({"rule": "paint(self.n)"}), "undeclared reference to 'paint'"),
        (json!({"rule": "true", "messageExpression": "'"}), "messageExpression: Invalid value"),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (json!({"rule": "true &&\ntrue"}), "message must be specified if rule contains line breaks"),
        (
            json!({"rule": "true", "reason": "Because"}),
            "supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".nope"}),
            "fieldPath: Invalid value: \".nope\": must be a valid path",
        ),
        (json!({"rule": "true", "fieldPath": "s"}), "must be a valid path"),
        (json!({"rule": "true", "optionalOldSelf": true}), "may not be set if oldSelf is not used in rule"),
        (json!({"rule": format!("{}true{}", "(".repeat(500), ")".repeat(500))}), "compilation failed"),
        (json!({"rule": format!("{}true", "true ? true : ".repeat(500))}), "compilation failed"),
        (json!({"rule": vec!["1"; 1000].join(" + ")}), "nested 1000 levels deep"),
        (json!({"rule": "x".repeat(20_000)}), "more than"),
        (json!(7), "rule is not specified"),
    ] {
        let errors = show(&Structural::parse(&ruled(json!([rule]))).unwrap_err());
        assert!(errors.contains(expected), "{rule}\n{errors}");
    }
}

#[test]
fn deep_rules_do_not_overflow_the_stack() {
    for depth in [19, 21, 60, 95] {
        let rule = format!("{}true{}", "!(".repeat(depth), ")".repeat(depth));
        let expected = if depth % 2 == 0 { "" } else { "spec: Invalid value: no" };
        assert_eq!(eval(&rule, json!({}), None), expected, "{depth}");
    }
}

#[test]
fn transition_rules() {
    let rule = "self.n >= oldSelf.n";
    assert_eq!(eval(rule, json!({"n": 1}), None), "");
    assert_eq!(eval(rule, json!({"n": 2}), Some(json!({"n": 1}))), "");
    assert_eq!(eval(rule, json!({"n": 1}), Some(json!({"n": 2}))), "spec: Invalid value: no");

    for rule in [
        "oldSelf.hasValue() ? oldSelf.value().n <= self.n : self.n == 1",
        "oldSelf.n.hasValue() ? oldSelf.n.value() <= self.n : self.n == 1",
        "oldSelf.?n.optMap(n, n <= self.n).orValue(self.n == 1)",
    ] {
        let optional = parse(ruled(json!([{"rule": rule, "optionalOldSelf": true}])));
        let valid = |n: i64, old: Option<i64>| {
            let old = old.map(|n| json!({"spec": {"n": n}}));
            optional.validate(&json!({"spec": {"n": n}}), old.as_ref()).is_empty()
        };
        assert!(valid(1, None) && !valid(2, None) && valid(3, Some(2)) && !valid(1, Some(2)), "{rule}");
    }
}

#[test]
fn old_items_are_found_by_key() {
    let list = |kind: &str, keys: Value| {
        json!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "x-kubernetes-map-type": "atomic", "required": ["k"],
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "no"}],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}}})
    };
    let keyed = parse(list("map", json!(["k"])));
    let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let moved = json!({"l": [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 1}]});
    assert_eq!(show(&keyed.validate(&moved, Some(&old))), "l[0]: Invalid value: no");
    let errors = show(&Structural::parse(&list("atomic", json!(null))).unwrap_err());
    assert!(
        errors.contains("oldSelf cannot be used on the uncorrelatable portion of the schema"),
        "{errors}"
    );
}

#[test]
fn the_root_sees_its_names_only() {
    let root = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "no"}], "properties": {}});
    let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "abc", "labels": {"a": "b"}}});
    for rule in [
        "self.metadata.name == 'abc'",
        "self.kind == 'K' && self.apiVersion == 'v1'",
        "!has(self.metadata.generateName)",
    ] {
        assert_eq!(show(&parse(root(rule)).validate(&object, None)), "", "{rule}");
    }
    assert_eq!(
        show(&parse(root("size(self.metadata.name) > 5")).validate(&object, None)),
        "<nil>: Invalid value: no"
    );
    assert!(
        show(&Structural::parse(&root("self.metadata.labels == {}")).unwrap_err())
            .contains("undefined field 'labels'")
    );
}

#[test]
fn rules_in_maps_scalars_and_nulls() {
    let schema = schema(json!({
        "m": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}]}},
        "s": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "self == 'x'", "message": "no"}]},
    }));
    let errors = schema.validate(&json!({"m": {"a": 1, "b": 0}, "s": "y"}), None);
    assert_eq!(show(&errors), "m[b]: Invalid value: 0: no\ns: Invalid value: \"y\": no");
    assert_eq!(show(&schema.validate(&json!({"s": null}), None)), "");
}

#[test]
fn rules_wait_for_a_valid_object() {
    let schema = parse(ruled(json!([{"rule": "self.n > 3"}])));
    let errors = show(&schema.validate(&json!({"spec": {"n": "x"}}), None));
    assert!(
        errors.contains("spec.n in body must be of type integer")
            && errors.contains("<nil>: Invalid value: null: some validation rules were not checked"),
        "{errors}"
    );
}

#[test]
fn an_unchanged_value_is_not_held_against_a_new_rule() {
    let spec = json!({"n": 1});
    assert_eq!(eval("self.n > 3", spec.clone(), Some(spec)), "");
    assert!(!eval("self.n > 3", json!({"n": 1}), Some(json!({"n": 2}))).is_empty());
    assert!(!eval("self.n > oldSelf.n", json!({"n": 1}), Some(json!({"n": 1}))).is_empty());
}

#[test]
fn a_panicking_expression_refuses_the_object() {
    // Out of the calendar's range in the interpreter.
    let errors = eval(
        "timestamp('0001-01-01T00:00:00Z').getDayOfYear() == 0 && self.t - duration('2562047h') < self.t",
        json!({"t": "0001-01-01T00:00:00Z"}),
        None,
    );
    assert!(errors.is_empty() || errors.contains("spec: Invalid value"), "{errors}");
}

#[test]
fn items_of_an_unchanged_list_are_tolerated_and_errors_are_not() {
    let schema = schema(json!({"l": {"type": "array", "items": {
        "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}, {"rule": "6 / self > 0", "message": "div"}]}}}));
    let old = json!({"l": [1, -6]});
    assert_eq!(show(&schema.validate(&old, Some(&old))), "");
    assert_eq!(
        show(&schema.validate(&json!({"l": [1, -6, 2]}), Some(&old))),
        "l[1]: Invalid value: -6: no\nl[1]: Invalid value: -6: div"
    );
    let zero = json!({"l": [0]});
    let errors = show(&schema.validate(&zero, Some(&zero)));
    assert!(errors.starts_with("l[0]: Invalid value: \"integer\": division by zero"), "{errors}");
    assert!(errors.ends_with("evaluating rule: div"), "{errors}");
}
