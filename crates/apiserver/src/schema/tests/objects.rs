//! Objects against schemas: pruned, defaulted, validated.

#![expect(clippy::too_many_lines, reason = "tables of cases are long and flat")]

use super::*;

#[test]
fn prune_drops_what_is_unknown() {
    let schema = schema(json!({
        "spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "any": {"type": "object", "additionalProperties": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }},
    }));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "extra": 1,
        "spec": {
            "list": [{"a": "1", "b": 2}, {}, {"c": {"d": 1}}],
            "map": {"k": {"a": "1", "b": 2}},
            "any": {"k": 1, "o": {"p": 1}},
            "free": {"x": {"y": 1}, "strict": {"a": "1", "b": 2}},
            "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {}}, "spec": {"x": 1}, "other": 1},
        },
    });
    let mut dropped = schema.prune(&mut object);
    dropped.sort();
    assert_eq!(
        dropped,
        [
            "extra",
            "spec.any.o.p",
            "spec.embedded.other",
            "spec.embedded.spec.x",
            "spec.free.strict.b",
            "spec.list[0].b",
            "spec.list[2].c",
            "spec.map.k.b"
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1},
            "spec": {
                "list": [{"a": "1"}, {}, {}],
                "map": {"k": {"a": "1"}},
                "any": {"k": 1, "o": {}},
                "free": {"x": {"y": 1}, "strict": {"a": "1"}},
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {}}, "spec": {}},
            },
        })
    );
    assert!(schema.prune(&mut object).is_empty());
}

#[test]
fn an_open_root_keeps_everything() {
    let schema = parse(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut object = json!({"a": {"b": [1, {"c": 2}]}});
    let before = object.clone();
    assert!(schema.prune(&mut object).is_empty());
    assert_eq!(object, before);
}

#[test]
fn defaults() {
    let schema = schema(json!({
        "a": {"type": "string", "default": "x"},
        "nullable": {"type": "string", "nullable": true, "default": "x"},
        "plain": {"type": "string"},
        "nest": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}},
        "opt": {"type": "object", "properties": {"c": {"type": "integer", "default": 2}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "integer", "default": 3}}}},
        "texts": {"type": "array", "items": {"type": "string", "default": "e"}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"f": {"type": "integer", "default": 4}}}},
    }));
    for (object, expected) in [
        (json!({}), json!({"a": "x", "nullable": "x", "nest": {"b": 1}})),
        (
            json!({"a": "y", "nullable": "z", "nest": {"b": 7}}),
            json!({"a": "y", "nullable": "z", "nest": {"b": 7}}),
        ),
        (
            json!({"a": null, "nullable": null, "plain": null, "nest": null}),
            json!({"a": "x", "nullable": null, "nest": {"b": 1}}),
        ),
        (
            json!({"opt": {}, "list": [{}, {"d": 9}], "map": {"k": {}, "l": null}}),
            json!({"a": "x", "nullable": "x", "nest": {"b": 1}, "opt": {"c": 2}, "list": [{"d": 3}, {"d": 9}], "map": {"k": {"f": 4}}}),
        ),
        (
            json!({"texts": ["a", null]}),
            json!({"a": "x", "nullable": "x", "nest": {"b": 1}, "texts": ["a", "e"]}),
        ),
    ] {
        let mut actual = object.clone();
        schema.default(&mut actual);
        assert_eq!(actual, expected, "{object}");
    }
}

#[test]
fn types() {
    for (x, value, expected) in [
        (
            json!({"type": "string"}),
            json!(1),
            "x: Invalid value: \"integer\": x in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "string"}),
            json!(null),
            "x: Invalid value: \"null\": x in body must be of type string: \"null\"",
        ),
        (
            json!({"type": "string", "nullable": true, "enum": ["a", null]}),
            json!(null),
            "x: Unsupported value: null: supported values: \"a\", \"null\"",
        ),
        (
            json!({"type": "string", "nullable": true, "minLength": 1, "anyOf": [{"enum": ["a"]}]}),
            json!(null),
            "",
        ),
        (json!({"type": "integer"}), json!(1.0), ""),
        (
            json!({"type": "integer"}),
            json!(1.5),
            "x: Invalid value: \"number\": x in body must be of type integer: \"number\"\n<nil>: Invalid value: \"\": \
             Checked value must be of type integer (default format) in x",
        ),
        (json!({"type": "number"}), json!(1), ""),
        (
            json!({"type": "boolean"}),
            json!("true"),
            "x: Invalid value: \"string\": x in body must be of type boolean: \"string\"",
        ),
        (
            json!({"type": "object"}),
            json!([]),
            "x: Invalid value: \"array\": x in body must be of type object: \"array\"",
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!("a"), ""),
        (json!({"x-kubernetes-int-or-string": true}), json!(1), ""),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(1.5),
            "x: Invalid value: \"number\": x in body must be of type integer,string: \"number\"",
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {"a": null}]), ""),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}}),
            json!([{"a": ["x", 3]}]),
            "x[0].a[1]: Invalid value: \"integer\": x[0].a[1] in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            "x.k: Invalid value: \"integer\": x.k in body must be of type string: \"integer\"",
        ),
    ] {
        assert_eq!(field(x.clone(), value.clone()), expected, "{x} {value}");
    }
    let root = schema(json!({})).validate(&json!([]), None);
    assert_eq!(show(&root), "<nil>: Invalid value: \"array\":  in body must be of type object: \"array\"");
    assert_eq!(root[0].reason.to_string(), "FieldValueTypeInvalid");
}

#[test]
fn value_checks() {
    let string = |extra: Value| {
        let mut s = json!({"type": "string"});
        crate::patch::merge(&mut s, &extra);
        s
    };
    let number = |extra: Value| {
        let mut s = json!({"type": "number"});
        crate::patch::merge(&mut s, &extra);
        s
    };
    let list = |extra: Value| {
        let mut s = json!({"type": "array", "items": {"type": "string"}});
        crate::patch::merge(&mut s, &extra);
        s
    };
    let map = |extra: Value| {
        let mut s = json!({"type": "object", "additionalProperties": {"type": "string"}});
        crate::patch::merge(&mut s, &extra);
        s
    };
    for (x, value, expected) in [
        (
            string(json!({"enum": ["a", "b"]})),
            json!("c"),
            "x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            string(json!({"pattern": "^a+$"})),
            json!("b"),
            "x: Invalid value: \"b\": x in body should match '^a+$'",
        ),
        (
            string(json!({"minLength": 2})),
            json!("ä"),
            "x: Invalid value: \"ä\": x in body should be at least 2 chars long",
        ),
        (string(json!({"minLength": 2, "maxLength": 2})), json!("äö"), ""),
        (string(json!({"maxLength": 1})), json!("äö"), "x: Too long: may not be more than 1 byte"),
        (
            string(json!({"format": "date-time"})),
            json!("now"),
            "x: Invalid value: \"now\": x in body must be of type date-time: \"now\"",
        ),
        (string(json!({"format": "date-time"})), json!("2024-01-01T00:00:00Z"), ""),
        (
            number(json!({"minimum": 1})),
            json!(0),
            "x: Invalid value: 0: x in body should be greater than or equal to 1",
        ),
        (
            number(json!({"minimum": 1, "exclusiveMinimum": true})),
            json!(1),
            "x: Invalid value: 1: x in body should be greater than 1",
        ),
        (
            number(json!({"maximum": 1.5})),
            json!(2.5),
            "x: Invalid value: 2.5: x in body should be less than or equal to 1.5",
        ),
        (
            number(json!({"maximum": 1, "exclusiveMaximum": true})),
            json!(1.0),
            "x: Invalid value: 1: x in body should be less than 1",
        ),
        (
            number(json!({"multipleOf": 2})),
            json!(3),
            "x: Invalid value: 3: x in body should be a multiple of 2",
        ),
        (number(json!({"multipleOf": 0.5})), json!(1.5), ""),
        (number(json!({"enum": [1, 2]})), json!(1.0), ""),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2_147_483_648_u64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x",
        ),
        (json!({"type": "integer", "format": "int32"}), json!(-2_147_483_648_i64), ""),
        (
            json!({"type": "number", "format": "float"}),
            json!(1e300),
            "<nil>: Invalid value: \"\": Checked value must be of type number with format float in x",
        ),
        (
            list(json!({"minItems": 1})),
            json!([]),
            "x: Invalid value: 0: x in body should have at least 1 items",
        ),
        (list(json!({"maxItems": 1})), json!(["a", "b"]), "x: Too many: 2: must have at most 1 item"),
        (
            list(json!({"x-kubernetes-list-type": "set"})),
            json!(["a", "b", "a", "a"]),
            "x[2]: Duplicate value: \"a\"",
        ),
        (list(json!({"x-kubernetes-list-type": "set"})), json!(["a", "b"]), ""),
        (
            map(json!({"minProperties": 1})),
            json!({}),
            "x: Invalid value: 1: x in body should have at least 1 properties",
        ),
        (
            map(json!({"maxProperties": 1})),
            json!({"a": "", "b": ""}),
            "x: Too many: 2: must have at most 1 item",
        ),
        (map(json!({"required": ["a"]})), json!({}), "x.a: Required value"),
        (map(json!({"required": ["a"]})), json!({"a": "b"}), ""),
        (
            string(json!({"allOf": [{"minLength": 2}, {"pattern": "b"}]})),
            json!("a"),
            "x: Invalid value: \"a\": x in body should be at least 2 chars long\nx: Invalid value: \"a\": x in body should match 'b'",
        ),
        (string(json!({"anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]})), json!("b1"), ""),
        (
            string(json!({"anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]})),
            json!("c"),
            "x: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
        ),
        (string(json!({"oneOf": [{"minLength": 1}, {"minLength": 2}]})), json!("a"), ""),
        (
            string(json!({"oneOf": [{"minLength": 1}, {"minLength": 2}]})),
            json!("ab"),
            "x: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        (
            string(json!({"oneOf": [{"minLength": 1}]})),
            json!(""),
            "x: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found none valid",
        ),
        (
            string(json!({"not": {"enum": ["a"]}})),
            json!("a"),
            "x: Invalid value: \"\": \"x\" must not validate the schema (not)",
        ),
    ] {
        assert_eq!(field(x.clone(), value.clone()), expected, "{x} {value}");
    }
}

#[test]
fn keyed_lists_hold_every_key_once() {
    let x = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {"type": "object", "required": ["name"],
                  "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 1}}}});
    let item = |name: &str, port: i32| json!({"name": name, "port": port});
    assert_eq!(field(x.clone(), json!([item("a", 1), item("a", 2), item("b", 1)])), "");
    assert_eq!(
        field(x.clone(), json!([item("a", 1), item("a", 1)])),
        "x[1]: Duplicate value: {\"name\":\"a\",\"port\":1}"
    );
    assert_eq!(
        field(x, json!([item("a", 1), 1])),
        "x[1]: Invalid value: \"integer\": x[1] in body must be of type object: \"integer\""
    );
}

#[test]
fn quantities() {
    let quantity = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"});
    for good in [json!("1Gi"), json!(2), json!("100m"), json!("1e3"), json!(".5")] {
        assert_eq!(field(quantity.clone(), good), "");
    }
    assert!(field(quantity.clone(), json!("1Gigs")).contains("should match"));
    assert!(field(quantity, json!(0.5)).contains("must be of type integer,string"));
}

#[test]
fn an_unchanged_value_is_tolerated() {
    let strict = schema(json!({
        "a": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                 "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}}},
        "o": {"type": "object", "required": ["r"], "properties": {"r": {"type": "string"}}},
    }));
    let old = json!({"a": "long", "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "o": {}});
    let mut new = json!({"a": "long", "list": [{"n": "y", "v": 2}, {"n": "x", "v": 1}], "o": {"r": ""}});
    assert_eq!(show(&strict.validate(&new, Some(&old))), "");
    assert_eq!(strict.validate(&new, None).len(), 3);
    new["a"] = json!("longer");
    new["list"][0]["v"] = json!(3);
    assert_eq!(
        show(&strict.validate(&new, Some(&old))),
        "a: Too long: may not be more than 1 byte\nlist[0].v: Invalid value: 3: list[0].v in body should be greater than or equal to 5"
    );
    // Everything below an unchanged value, also what is missing there.
    assert_eq!(show(&strict.validate(&old, Some(&old))), "");
    let mut new = old.clone();
    new["o"]["x"] = json!(1);
    assert_eq!(show(&strict.validate(&new, Some(&old))), "o.r: Required value");
}

#[test]
fn old_duplicates_are_tolerated() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema = schema(json!({"a": set, "b": set}));
    let clean = json!({"a": ["x"], "b": []});
    let dirty = json!({"a": ["x", "x"], "b": []});
    assert_eq!(show(&schema.validate(&dirty, Some(&clean))), "a[1]: Duplicate value: \"x\"");
    assert_eq!(show(&schema.validate(&json!({"a": ["x", "x"], "b": ["y", "y"]}), Some(&dirty))), "");
}

#[test]
fn nulls_and_defaults_in_maps() {
    let schema = schema(json!({
        "m": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
        "n": {"type": "object", "additionalProperties": {"type": "string"}},
        "null": {"type": "string", "nullable": true, "default": null},
    }));
    let mut object = json!({"m": {"a": null, "b": "x"}, "n": {"a": null, "b": "x"}});
    schema.default(&mut object);
    assert_eq!(object, json!({"m": {"a": "d", "b": "x"}, "n": {"b": "x"}}));
}

#[test]
fn items_of_an_open_list_are_open() {
    let schema = schema(json!({"l": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
        "items": {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}}}));
    let mut object = json!({"l": [{"a": {"gone": 1}, "kept": {"x": 1}}]});
    assert_eq!(schema.prune(&mut object), ["l[0].a.gone"]);
    assert_eq!(object, json!({"l": [{"a": {}, "kept": {"x": 1}}]}));
}

#[test]
fn an_embedded_resource_says_what_it_is() {
    let x = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(field(x.clone(), json!({"apiVersion": "v1", "kind": "Pod", "spec": {}})), "");
    assert_eq!(field(x, json!({"kind": ""})), "x.apiVersion: Required value\nx.kind: Required value");
}
