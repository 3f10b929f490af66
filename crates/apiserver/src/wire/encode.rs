//! Objects as protobuf, by the tables. The bytes are those a real server writes: every field that is no pointer is
//! there, in the order of the numbers, and maps are sorted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::writer::Writer;
use crate::types::{self, Field, Message, Shape, Ty};

/// The message without an envelope.
pub(super) fn message(table: &'static Message, object: &Map<String, Value>) -> Vec<u8> {
    let mut writer = Writer::default();
    fields(&mut writer, table, object);
    writer.finish()
}

fn fields(writer: &mut Writer, table: &'static Message, object: &Map<String, Value>) {
    for field in table.slots.iter().rev().filter(|field| field.number > 0) {
        if let (true, Some(inner)) = (field.inline(), field.message()) {
            writer.nested(field.number, |writer| fields(writer, inner, object));
        } else {
            one_field(writer, field, object.get(field.json).filter(|value| !value.is_null()));
        }
    }
}

fn one_field(writer: &mut Writer, field: &Field, value: Option<&Value>) {
    match (field.shape, value) {
        (Shape::List, Some(Value::Array(items))) => {
            for item in items.iter().rev() {
                single(writer, field.number, field.ty, item);
            }
        }
        (Shape::Map, Some(Value::Object(members))) => map(writer, field, members),
        (Shape::List | Shape::Map, _) => {}
        (Shape::Single, Some(value)) => single(writer, field.number, field.ty, value),
        (Shape::Single, None) if field.pointer => {}
        (Shape::Single, None) => nothing(writer, field.number, field.ty),
    }
}

/// Go sorts the keys by their bytes, and so does every map here when it keeps its keys sorted; one that keeps the
/// order of a document does not.
fn map(writer: &mut Writer, field: &Field, members: &Map<String, Value>) {
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| key.as_str());
    for (key, value) in sorted.into_iter().rev() {
        writer.nested(field.number, |writer| {
            match value {
                Value::Null => nothing(writer, 2, field.ty),
                value => single(writer, 2, field.ty, value),
            }
            writer.bytes(1, key.as_bytes());
        });
    }
}

/// A field that is always written and was not given.
fn nothing(writer: &mut Writer, number: u32, ty: Ty) {
    match ty {
        Ty::Bytes | Ty::Any | Ty::Strings => {}
        Ty::Time | Ty::MicroTime | Ty::RawExtension | Ty::Json | Ty::FieldsV1 => writer.bytes(number, &[]),
        ty => single(writer, number, ty, &ty.zero()),
    }
}

fn single(writer: &mut Writer, number: u32, ty: Ty, value: &Value) {
    let text = || value.as_str().unwrap_or_default();
    match ty {
        Ty::String => writer.bytes(number, text().as_bytes()),
        Ty::Bool => writer.int(number, i64::from(value.as_bool().unwrap_or_default())),
        Ty::Int32 | Ty::Int64 => writer.int(number, integer(value)),
        Ty::Double => writer.double(number, value.as_f64().unwrap_or_default()),
        Ty::Bytes => writer.bytes(number, &STANDARD.decode(text()).unwrap_or_default()),
        Ty::Quantity => writer.nested(number, |writer| writer.bytes(1, text().as_bytes())),
        Ty::IntOrString => writer.nested(number, |writer| {
            let is_text = value.is_string();
            writer.bytes(3, text().as_bytes());
            writer.int(2, if is_text { 0 } else { integer(value) });
            writer.int(1, i64::from(is_text));
        }),
        Ty::Time => writer.nested(number, |writer| time(writer, text(), false)),
        Ty::MicroTime => writer.nested(number, |writer| time(writer, text(), true)),
        Ty::RawExtension | Ty::FieldsV1 | Ty::Json => {
            writer.nested(number, |writer| writer.bytes(1, value.to_string().as_bytes()));
        }
        Ty::Strings => writer.nested(number, |writer| strings(writer, 1, value)),
        Ty::SchemaOrBool | Ty::SchemaOrArray | Ty::SchemaOrStrings => {
            writer.nested(number, |writer| schema_or(writer, ty, value));
        }
        Ty::Any => {}
        Ty::Message(table) => writer.nested(number, |writer| match value {
            Value::Object(object) => fields(writer, table, object),
            _ => fields(writer, table, &Map::new()),
        }),
    }
}

fn integer(value: &Value) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a number that is no integer is cut, never refused")]
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)).unwrap_or_default()
}

fn strings(writer: &mut Writer, number: u32, value: &Value) {
    for item in value.as_array().into_iter().flatten().rev() {
        writer.bytes(number, item.as_str().unwrap_or_default().as_bytes());
    }
}

/// A moment; nothing at all for one that is not set.
fn time(writer: &mut Writer, text: &str, micro: bool) {
    if let Ok(moment) = text.parse::<Timestamp>() {
        // Rounded down, so that the fraction counts forward also before 1970.
        let nanos = moment.as_nanosecond();
        let (seconds, fraction) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
        let fraction = if micro { fraction / 1000 * 1000 } else { 0 };
        writer.int(2, i64::try_from(fraction).unwrap_or_default());
        writer.int(1, i64::try_from(seconds).unwrap_or_default());
    }
}

/// A JSON schema, or what else may stand in its place.
fn schema_or(writer: &mut Writer, ty: Ty, value: &Value) {
    let schema_number = if matches!(ty, Ty::SchemaOrBool) { 2 } else { 1 };
    let schema = types::json_schema();
    match (ty, value) {
        (_, Value::Object(object)) => {
            writer.nested(schema_number, |writer| fields(writer, schema, object));
            if matches!(ty, Ty::SchemaOrBool) {
                writer.int(1, 1);
            }
        }
        (Ty::SchemaOrBool, value) => writer.int(1, i64::from(value.as_bool().unwrap_or_default())),
        (Ty::SchemaOrArray, Value::Array(items)) => {
            for item in items.iter().rev().filter_map(Value::as_object) {
                writer.nested(2, |writer| fields(writer, schema, item));
            }
        }
        (Ty::SchemaOrStrings, value) => strings(writer, 2, value),
        _ => {}
    }
}
