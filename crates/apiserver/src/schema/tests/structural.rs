//! Schemas that are not structural, and what is said about them.

#![expect(clippy::too_many_lines, reason = "tables of cases are long and flat")]

use super::*;

#[test]
fn what_is_not_structural() {
    let x = |x: Value| json!({"type": "object", "properties": {"x": x}});
    for (schema, expected) in [
        (json!({}), "openAPIV3Schema.type: Required value: must not be empty at the root"),
        (json!([]), "openAPIV3Schema: Invalid value: []: must be a schema object"),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "openAPIV3Schema.type: Invalid value: \"array\": must be object at the root",
        ),
        (
            x(json!({})),
            "openAPIV3Schema.properties[x].type: Required value: must not be empty for specified object fields",
        ),
        (
            x(json!({"type": "array", "items": {}})),
            "openAPIV3Schema.properties[x].items.type: Required value: must not be empty for specified array items",
        ),
        (
            x(json!({"type": "array"})),
            "openAPIV3Schema.properties[x].items: Required value: must be specified",
        ),
        (
            x(json!({"type": "text"})),
            "openAPIV3Schema.properties[x].type: Unsupported value: \"text\": supported values: \"array\"",
        ),
        (x(json!({"type": "null"})), "type cannot be set to null, use nullable as an alternative"),
        (
            x(json!({"type": "string", "x-kubernetes-int-or-string": true})),
            "must be empty if x-kubernetes-int-or-string is true",
        ),
        (
            x(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
            "must be false if x-kubernetes-int-or-string is true",
        ),
        (
            x(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            "must be true or undefined",
        ),
        (
            x(json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})),
            "properties[x].type: Required value: must be object if x-kubernetes-embedded-resource is true",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"metadata": {"required": ["name"]}}}]}),
            "anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}}),
            "must not specify anything other than name and generateName",
        ),
        (
            x(json!({"type": "string", "$ref": "#/a"})),
            "openAPIV3Schema.properties[x].$ref: Forbidden: $ref is not supported",
        ),
        (
            x(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
            "uniqueItems cannot be set to true",
        ),
        (
            x(json!({"type": "array", "items": [{"type": "string"}]})),
            "items must be a schema object and not an array",
        ),
        (
            x(json!({"type": "object", "additionalProperties": false})),
            "additionalProperties cannot be set to false",
        ),
        (
            x(
                json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "string"}}}),
            ),
            "mutual exclusive",
        ),
        (
            x(json!({"type": "string", "pattern": "("})),
            "openAPIV3Schema.properties[x].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: ",
        ),
        (
            x(json!({"type": "string", "minLength": "a"})),
            "properties[x].minLength: Invalid value: \"a\": must be an integer",
        ),
        (
            x(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            "must not be empty if x-kubernetes-embedded-resource is true",
        ),
        (
            x(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"})),
            "supported values: \"atomic\", \"set\", \"map\"",
        ),
        (
            x(
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            ),
            "items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
        ),
        (
            x(
                json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            ),
            "so it must have a default or be a required property",
        ),
        (
            x(
                json!({"type": "array", "items": {"type": "object", "properties": {}}, "x-kubernetes-list-type": "map"}),
            ),
            "must not be empty if x-kubernetes-list-type is map",
        ),
        (
            x(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
            "items of a set must be scalars",
        ),
        (
            x(json!({"type": "string", "x-kubernetes-map-type": "atomic"})),
            "must be object if x-kubernetes-map-type is specified",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "must not specify anything other than name and generateName",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            "properties[kind].type: Invalid value: \"integer\": must be string",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"y": {"minimum": 1}}}]}),
            "openAPIV3Schema.properties[y]: Required value: because it is defined in openAPIV3Schema.anyOf[0].properties[y]",
        ),
        (
            x(json!({"type": "string", "oneOf": [{"type": "string"}]})),
            "oneOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            x(json!({"type": "string", "not": {"default": 1}})),
            "not.default: Forbidden: must be undefined to be structural",
        ),
        (
            x(json!({"type": "string", "default": 1})),
            "properties[x].default: Invalid value: \"integer\":  in body must be of type string",
        ),
        (
            x(json!({"type": "object", "default": {"a": 1}})),
            "properties[x].default: Invalid value: {\"a\":1}: must not have unknown fields",
        ),
        (
            x(
                json!({"type": "object", "default": {}, "required": ["a"], "properties": {"a": {"type": "string"}}}),
            ),
            "properties[x].default.a: Required value",
        ),
    ] {
        let errors = show(&Structural::parse(&schema).unwrap_err());
        assert!(errors.contains(expected), "{schema}\n{errors}");
    }
}

#[test]
fn every_error_is_reported() {
    let errors = Structural::parse(
        &json!({"type": "object", "properties": {"a": {}, "b": {"type": "string", "pattern": "("}}}),
    );
    assert_eq!(errors.unwrap_err().len(), 2);
}

#[test]
fn what_is_structural() {
    for x in [
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^a"}),
        json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}]}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "default": {}, "required": ["a"], "properties": {"a": {"type": "string", "default": "b"}}}),
        json!({"type": "string", "nullable": true, "default": null}),
        json!({"type": "string", "format": "made-up", "description": "d", "example": 1, "externalDocs": {}}),
        json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
               "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}}),
        json!({"type": "string", "maxLength": -1, "minimum": null}),
    ] {
        schema(json!({ "x": x }));
    }
}

#[test]
fn depth_is_bounded() {
    let mut schema = json!({"type": "string"});
    for _ in 0..400 {
        schema = json!({"type": "array", "items": schema});
    }
    let errors =
        show(&Structural::parse(&json!({"type": "object", "properties": {"x": schema}})).unwrap_err());
    assert!(errors.contains("nested too deeply"), "{errors}");
}

#[test]
fn a_schema_is_shared_between_threads() {
    fn check<T: Send + Sync>(_: &T) {}
    check(&schema(json!({})));
}
