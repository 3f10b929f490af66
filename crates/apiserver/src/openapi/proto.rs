//! OpenAPI documents as protobuf: the messages of gnostic, which older clients ask for by name.
//!
//! The messages mirror the JSON closely, so one walk over tables writes both versions. An `Any` is YAML text in these
//! messages, and JSON is YAML.

use serde_json::{Map, Value};

/// What a JSON value becomes.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Double,
    Whole,
    Any,
    Message(&'static Message),
    /// A message in which only this field is set.
    In(u32, &'static Self),
    /// The members of an object, each as an entry of this field.
    Map(u32, &'static Self),
    /// A message, or the reference that stands for it.
    OrReference(&'static Message, &'static Message),
    /// A schema of the newer version, or a reference to one.
    Schema3,
    /// A schema or a yes.
    Additional(&'static Self),
    /// A parameter of the older version, by its place.
    Parameter,
    /// A default of the newer version: a number, a yes, or a text.
    Default,
}

use Kind::{Additional, Any, Default, Double, Flag, In, OrReference, Parameter, Schema3, Text, Whole};

/// A message: its fields by their names in JSON, and the field of everything that begins with `x-`.
struct Message {
    fields: &'static [(&'static str, u32, Kind)],
    extensions: u32,
}

const fn message(extensions: u32, fields: &'static [(&'static str, u32, Kind)]) -> Message {
    Message { fields, extensions }
}

const INFO2: Message = message(7, &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)]);
const DOCS: Message = message(3, &[("description", 1, Text), ("url", 2, Text)]);
static DOCUMENT2: Message = message(
    16,
    &[
        ("swagger", 1, Text),
        ("info", 2, Kind::Message(&INFO2)),
        ("paths", 8, Kind::Map(2, &Kind::Message(&PATH2))),
        ("definitions", 9, Kind::Map(1, &Kind::Message(&SCHEMA2))),
        ("security", 12, Kind::Map(1, &In(1, &Text))),
        ("securityDefinitions", 13, Kind::Map(1, &In(2, &Kind::Message(&API_KEY)))),
    ],
);
const API_KEY: Message =
    message(5, &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)]);
static PATH2: Message = message(
    10,
    &[
        ("get", 2, Kind::Message(&OPERATION2)),
        ("put", 3, Kind::Message(&OPERATION2)),
        ("post", 4, Kind::Message(&OPERATION2)),
        ("delete", 5, Kind::Message(&OPERATION2)),
        ("options", 6, Kind::Message(&OPERATION2)),
        ("head", 7, Kind::Message(&OPERATION2)),
        ("patch", 8, Kind::Message(&OPERATION2)),
        ("parameters", 9, Parameter),
    ],
);
static OPERATION2: Message = message(
    13,
    &[
        ("tags", 1, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Text),
        ("consumes", 7, Text),
        ("parameters", 8, Parameter),
        ("responses", 9, Kind::Map(1, &In(1, &Kind::Message(&RESPONSE2)))),
        ("schemes", 10, Text),
        ("deprecated", 11, Flag),
    ],
);
static RESPONSE2: Message =
    message(5, &[("description", 1, Text), ("schema", 2, In(1, &Kind::Message(&SCHEMA2)))]);
static BODY2: Message = message(
    6,
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Kind::Message(&SCHEMA2)),
    ],
);
static QUERY2: Message = message(
    23,
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
);
static PLACE2: Message = message(
    22,
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
);
static SCHEMA2: Message = message(
    31,
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Whole),
        ("minLength", 12, Whole),
        ("pattern", 13, Text),
        ("maxItems", 14, Whole),
        ("minItems", 15, Whole),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Whole),
        ("minProperties", 18, Whole),
        ("required", 19, Text),
        ("enum", 20, Any),
        ("additionalProperties", 21, Additional(&Kind::Message(&SCHEMA2))),
        ("type", 22, In(1, &Text)),
        ("items", 23, In(1, &Kind::Message(&SCHEMA2))),
        ("allOf", 24, Kind::Message(&SCHEMA2)),
        ("properties", 25, Kind::Map(1, &Kind::Message(&SCHEMA2))),
        ("externalDocs", 29, Kind::Message(&DOCS)),
        ("example", 30, Any),
    ],
);

const INFO3: Message = message(7, &[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)]);
static REFERENCE3: Message = message(0, &[("$ref", 1, Text), ("description", 3, Text)]);
static DOCUMENT3: Message = message(
    9,
    &[
        ("openapi", 1, Text),
        ("info", 2, Kind::Message(&INFO3)),
        ("paths", 4, Kind::Map(1, &Kind::Message(&PATH3))),
        ("components", 5, Kind::Message(&COMPONENTS3)),
    ],
);
static COMPONENTS3: Message = message(
    10,
    &[
        ("schemas", 1, Kind::Map(1, &Schema3)),
        ("securitySchemes", 7, Kind::Map(1, &OrReference(&SECURITY3, &REFERENCE3))),
    ],
);
static SECURITY3: Message =
    message(9, &[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)]);
static PATH3: Message = message(
    14,
    &[
        ("get", 4, Kind::Message(&OPERATION3)),
        ("put", 5, Kind::Message(&OPERATION3)),
        ("post", 6, Kind::Message(&OPERATION3)),
        ("delete", 7, Kind::Message(&OPERATION3)),
        ("options", 8, Kind::Message(&OPERATION3)),
        ("head", 9, Kind::Message(&OPERATION3)),
        ("patch", 10, Kind::Message(&OPERATION3)),
        ("parameters", 13, OrReference(&PARAMETER3, &REFERENCE3)),
    ],
);
static OPERATION3: Message = message(
    13,
    &[
        ("tags", 1, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, OrReference(&PARAMETER3, &REFERENCE3)),
        ("requestBody", 7, OrReference(&BODY3, &REFERENCE3)),
        ("responses", 8, Kind::Map(2, &OrReference(&RESPONSE3, &REFERENCE3))),
        ("deprecated", 10, Flag),
    ],
);
static PARAMETER3: Message = message(
    14,
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("schema", 10, Schema3),
    ],
);
static BODY3: Message = message(
    4,
    &[("description", 1, Text), ("content", 2, Kind::Map(1, &Kind::Message(&MEDIA3))), ("required", 3, Flag)],
);
static RESPONSE3: Message =
    message(5, &[("description", 1, Text), ("content", 3, Kind::Map(1, &Kind::Message(&MEDIA3)))]);
static MEDIA3: Message = message(5, &[("schema", 1, Schema3)]);
static SCHEMA3: Message = message(
    36,
    &[
        ("nullable", 1, Flag),
        ("externalDocs", 6, Kind::Message(&DOCS)),
        ("example", 7, Any),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Whole),
        ("minLength", 16, Whole),
        ("pattern", 17, Text),
        ("maxItems", 18, Whole),
        ("minItems", 19, Whole),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Whole),
        ("minProperties", 22, Whole),
        ("required", 23, Text),
        ("enum", 24, Any),
        ("type", 25, Text),
        ("allOf", 26, Schema3),
        ("oneOf", 27, Schema3),
        ("anyOf", 28, Schema3),
        ("not", 29, Kind::Message(&SCHEMA3)),
        ("items", 30, In(1, &Schema3)),
        ("properties", 31, Kind::Map(1, &Schema3)),
        ("additionalProperties", 32, Additional(&Schema3)),
        ("default", 33, Default),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
);

/// An OpenAPI v2 document.
pub(super) fn v2(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    fields(&mut out, &DOCUMENT2, document);
    out
}

/// An OpenAPI v3 document.
pub(super) fn v3(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    fields(&mut out, &DOCUMENT3, document);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// A field of length and bytes: texts and messages.
fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message inside another.
fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inside = Vec::new();
    write(&mut inside);
    bytes(out, number, &inside);
}

fn fields(out: &mut Vec<u8>, message: &Message, value: &Value) {
    let Some(map) = value.as_object() else { return };
    for (name, number, kind) in message.fields {
        match (map.get(*name), kind) {
            (None, _) => {}
            (Some(Value::Array(items)), kind) if repeats(*kind, name) => {
                items.iter().for_each(|item| write(out, *number, *kind, item));
            }
            (Some(value), kind) => write(out, *number, *kind, value),
        }
    }
    extensions(out, message.extensions, map);
}

/// Whether a list is one field several times. In a message of its own it is that message's field that repeats.
fn repeats(kind: Kind, name: &str) -> bool {
    match kind {
        In(..) => false,
        Any => name == "enum",
        _ => true,
    }
}

fn extensions(out: &mut Vec<u8>, number: u32, map: &Map<String, Value>) {
    for (name, value) in map.iter().filter(|(name, _)| number > 0 && name.starts_with("x-")) {
        nested(out, number, |out| {
            bytes(out, 1, name.as_bytes());
            write(out, 2, Any, value);
        });
    }
}

fn write(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    match kind {
        Text => bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Flag => {
            varint(out, u64::from(number) << 3);
            varint(out, u64::from(value.as_bool().unwrap_or(false)));
        }
        Double => {
            varint(out, u64::from(number) << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Whole => {
            varint(out, u64::from(number) << 3);
            varint(out, value.as_u64().unwrap_or_default());
        }
        Any => nested(out, number, |out| bytes(out, 2, format!("{value}\n").as_bytes())),
        Kind::Message(message) => nested(out, number, |out| fields(out, message, value)),
        In(field, kind) => nested(out, number, |out| each(out, field, *kind, value)),
        Kind::Map(field, kind) => nested(out, number, |out| {
            for (name, value) in value.as_object().into_iter().flatten() {
                nested(out, field, |out| {
                    bytes(out, 1, name.as_bytes());
                    write(out, 2, *kind, value);
                });
            }
        }),
        OrReference(message, reference) => nested(out, number, |out| match value.get("$ref") {
            Some(_) => nested(out, 2, |out| fields(out, reference, value)),
            None => nested(out, 1, |out| fields(out, message, value)),
        }),
        Schema3 => write(out, number, OrReference(&SCHEMA3, &REFERENCE3), value),
        Additional(kind) => nested(out, number, |out| match value {
            Value::Bool(_) => write(out, 2, Flag, value),
            _ => write(out, 1, *kind, value),
        }),
        Parameter => parameter(out, number, value),
        Default => default(out, number, value),
    }
}

/// A value, or every value of a list.
fn each(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| write(out, number, kind, item)),
        value => write(out, number, kind, value),
    }
}

fn parameter(out: &mut Vec<u8>, number: u32, value: &Value) {
    nested(out, number, |out| {
        nested(out, 1, |out| match value.get("in").and_then(Value::as_str) {
            Some("body") => nested(out, 1, |out| fields(out, &BODY2, value)),
            Some("header") => nested(out, 2, |out| nested(out, 1, |out| fields(out, &PLACE2, value))),
            Some("path") => nested(out, 2, |out| nested(out, 4, |out| fields(out, &PLACE2, value))),
            _ => nested(out, 2, |out| nested(out, 3, |out| fields(out, &QUERY2, value))),
        });
    });
}

/// A default that is a list or an object is known to be there, and no more.
fn default(out: &mut Vec<u8>, number: u32, value: &Value) {
    match value {
        Value::Number(_) => nested(out, number, |out| write(out, 1, Double, value)),
        Value::Bool(_) => nested(out, number, |out| write(out, 2, Flag, value)),
        Value::String(_) => nested(out, number, |out| write(out, 3, Text, value)),
        Value::Null | Value::Array(_) | Value::Object(_) => nested(out, number, |_| {}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A message with the given fields, each already a tag, a length below 128, and bytes.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(value.len()).unwrap()];
        field.extend_from_slice(value);
        field
    }

    #[test]
    fn a_schema_of_the_older_version_is_written_by_its_numbers() {
        let schema =
            json!({"type": "object", "required": ["a", "b"], "x-y": [1], "properties": {"a": {"$ref": "r"}}});
        let reference = field(1, b"r");
        let property = field(1, &[field(1, b"a"), field(2, &reference)].concat());
        let mut expected = vec![0x9a, 0x01, 1, b'a', 0x9a, 0x01, 1, b'b', 0xb2, 0x01];
        let kind = field(1, b"object");
        expected.push(u8::try_from(kind.len()).unwrap());
        expected.extend(kind);
        expected.extend([0xca, 0x01, u8::try_from(property.len()).unwrap()]);
        expected.extend(property);
        let extension = [field(1, b"x-y"), field(2, &field(2, b"[1]\n"))].concat();
        expected.extend([0xfa, 0x01, u8::try_from(extension.len()).unwrap()]);
        expected.extend(extension);
        let mut out = Vec::new();
        fields(&mut out, &SCHEMA2, &schema);
        assert_eq!(out, expected);
    }

    #[test]
    fn what_the_versions_do_differently_is_told_apart() {
        let reference = json!({"schema": {"$ref": "r"}});
        let mut out = Vec::new();
        fields(&mut out, &MEDIA3, &reference);
        assert_eq!(out, field(1, &field(2, &field(1, b"r"))));
        let whole = json!({"schema": {"title": "t"}});
        let mut out = Vec::new();
        fields(&mut out, &MEDIA3, &whole);
        assert_eq!(out, field(1, &field(1, &field(9, b"t"))));
        for (value, expected) in [
            (json!(true), vec![2 << 3, 1]),
            (json!("a"), field(3, b"a")),
            (json!(1.5), [vec![1 << 3 | 1], 1.5_f64.to_le_bytes().to_vec()].concat()),
        ] {
            let mut out = Vec::new();
            default(&mut out, 4, &value);
            assert_eq!(out, field(4, &expected), "{value}");
        }
        let mut out = Vec::new();
        default(&mut out, 4, &json!({}));
        assert_eq!(out, field(4, b""));
        let query = json!({"in": "query", "name": "n", "uniqueItems": true});
        let mut out = Vec::new();
        parameter(&mut out, 8, &query);
        let inside = [field(2, b"query"), field(4, b"n"), vec![0xa0, 0x01, 1]].concat();
        assert_eq!(out, field(8, &field(1, &field(2, &field(3, &inside)))));
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xac, 0x02]);
    }
}
