//! Protobuf as objects, by the tables. Fields nobody knows are skipped; depth and the number of values are bounded,
//! because two bytes can stand for a large object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::reader::{Content, Malformed, Reader};
use super::writer::{DELIMITED, FIXED64, VARINT};
use crate::types::{self, Field, Message, Shape, Ty, quantity};

/// Messages nest at most this deep: as deep as objects may.
const MAX_DEPTH: usize = 100;
/// A body has at most this many values.
const MAX_VALUES: usize = 250_000;

/// Decodes a message without an envelope.
pub(super) fn message(table: &'static Message, bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
    Decoder { depth: 0, values: 0 }.message(table, bytes)
}

struct Decoder {
    depth: usize,
    values: usize,
}

impl Decoder {
    fn message(&mut self, table: &'static Message, bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
        let mut object = Map::new();
        self.fields(table, bytes, &mut object)?;
        types::finish(table, &mut object);
        Ok(object)
    }

    /// Adds the fields of a message to an object, which has others already when the message is embedded in it.
    fn fields(
        &mut self,
        table: &'static Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Malformed::Other("the object is nested too deeply".into()));
        }
        let mut reader = Reader::new(bytes, table.name);
        while let Some((number, wire)) = reader.tag()? {
            let Some(field) = table.slot(number) else {
                reader.content(wire)?;
                continue;
            };
            check_wire(field, wire)?;
            let content = reader.content(wire)?;
            self.field(field, content, object)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        content: Content<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), Malformed> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(Malformed::Other("the object has too many values".into()));
        }
        match (field.shape, content) {
            (Shape::Single, Content::Bytes(bytes)) if field.inline() => {
                if let Some(inner) = field.message() {
                    self.fields(inner, bytes, object)?;
                }
            }
            (Shape::Single, content) => {
                let value = self.value(field.ty, content)?;
                object.insert(field.json.to_owned(), value);
            }
            (Shape::List, Content::Bytes(bytes)) if wire_of(field.ty) == VARINT => {
                let mut packed = Reader::new(bytes, "");
                while !packed.is_empty() {
                    let item = self.value(field.ty, Content::Varint(packed.varint()?))?;
                    push(object, field, item);
                }
            }
            (Shape::List, content) => {
                let item = self.value(field.ty, content)?;
                push(object, field, item);
            }
            (Shape::Map, Content::Bytes(bytes)) => {
                let (key, value) = self.entry(field, bytes)?;
                let members = object.entry(field.json).or_insert_with(|| Value::Object(Map::new()));
                if let Some(members) = members.as_object_mut() {
                    members.insert(key, value);
                }
            }
            (Shape::Map, _) => {}
        }
        Ok(())
    }

    fn entry(&mut self, field: &'static Field, bytes: &[u8]) -> Result<(String, Value), Malformed> {
        let (mut key, mut value) = (String::new(), field.ty.zero());
        let mut reader = Reader::new(bytes, "");
        while let Some((number, wire)) = reader.tag()? {
            match (number, reader.content(wire)?) {
                (1, Content::Bytes(bytes)) => key = text(bytes),
                (2, content) => value = self.value(field.ty, content)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&mut self, ty: Ty, content: Content<'_>) -> Result<Value, Malformed> {
        let bytes = match content {
            Content::Varint(number) => return Ok(scalar(ty, number)),
            Content::Fixed64(bits) => return Ok(double(f64::from_bits(bits))),
            Content::Skipped => return Ok(ty.zero()),
            Content::Bytes(bytes) => bytes,
        };
        Ok(match ty {
            Ty::String => text(bytes).into(),
            Ty::Bytes => STANDARD.encode(bytes).into(),
            Ty::Quantity => {
                let written = text(inner(bytes, 1, "Quantity")?.unwrap_or_default());
                let written = if written.is_empty() { "0" } else { written.as_str() };
                quantity::canonical(written).map_err(|error| Malformed::Other(error.to_string()))?.into()
            }
            Ty::IntOrString => int_or_string(bytes)?,
            Ty::Time => time(bytes, false)?,
            Ty::MicroTime => time(bytes, true)?,
            Ty::RawExtension | Ty::FieldsV1 | Ty::Json => raw(bytes)?,
            Ty::Strings => strings(bytes, 1)?,
            Ty::SchemaOrBool | Ty::SchemaOrArray | Ty::SchemaOrStrings => self.schema_or(ty, bytes)?,
            Ty::Message(table) => Value::Object(self.message(table, bytes)?),
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Double | Ty::Any => ty.zero(),
        })
    }

    /// A JSON schema, or what else may stand in its place.
    fn schema_or(&mut self, ty: Ty, bytes: &[u8]) -> Result<Value, Malformed> {
        let schema_number = if matches!(ty, Ty::SchemaOrBool) { 2 } else { 1 };
        let (mut schema, mut allows, mut list) = (None, false, Vec::new());
        let mut reader = Reader::new(bytes, "JSONSchemaPropsOr");
        while let Some((number, wire)) = reader.tag()? {
            match (reader.content(wire)?, ty) {
                (Content::Bytes(bytes), _) if number == schema_number => {
                    schema = Some(Value::Object(self.message(types::json_schema(), bytes)?));
                }
                (Content::Varint(flag), Ty::SchemaOrBool) if number == 1 => allows = flag != 0,
                (Content::Bytes(bytes), Ty::SchemaOrArray) if number == 2 => {
                    list.push(Value::Object(self.message(types::json_schema(), bytes)?));
                }
                (Content::Bytes(bytes), Ty::SchemaOrStrings) if number == 2 => list.push(text(bytes).into()),
                _ => {}
            }
            self.values += 1;
        }
        Ok(match (ty, schema) {
            (Ty::SchemaOrBool, None) => allows.into(),
            (_, Some(schema)) if list.is_empty() => schema,
            (_, None) if list.is_empty() => Value::Null,
            _ => list.into(),
        })
    }
}

fn push(object: &mut Map<String, Value>, field: &Field, item: Value) {
    let items = object.entry(field.json).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(items) = items.as_array_mut() {
        items.push(item);
    }
}

fn wire_of(ty: Ty) -> u32 {
    match ty {
        Ty::Bool | Ty::Int32 | Ty::Int64 => VARINT,
        Ty::Double => FIXED64,
        _ => DELIMITED,
    }
}

fn check_wire(field: &Field, wire: u32) -> Result<(), Malformed> {
    let expected = if field.shape == Shape::Map { DELIMITED } else { wire_of(field.ty) };
    if wire == expected || (field.shape == Shape::List && expected == VARINT && wire == DELIMITED) {
        return Ok(());
    }
    // Metadata is called after its type in Go, everything else as in JSON.
    let name = match (field.message(), field.json) {
        (Some(message), "metadata" | "") => message.name.to_owned(),
        (_, json) => {
            let mut letters = json.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
        }
    };
    Err(Malformed::WireType { wire, field: name })
}

fn scalar(ty: Ty, number: u64) -> Value {
    let signed = number.cast_signed();
    match ty {
        Ty::Bool => (number != 0).into(),
        #[expect(clippy::cast_possible_truncation, reason = "what does not fit is cut, as in the Go decoder")]
        Ty::Int32 => (signed as i32).into(),
        _ => signed.into(),
    }
}

/// A number, written without a fraction when it has none.
fn double(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the condition")]
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Bytes that are no text become replacement characters, as they do when a real server answers in JSON.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes of one field of a small message.
fn inner<'a>(bytes: &'a [u8], wanted: u32, name: &'a str) -> Result<Option<&'a [u8]>, Malformed> {
    let mut reader = Reader::new(bytes, name);
    let mut found = None;
    while let Some((number, wire)) = reader.tag()? {
        if let (Content::Bytes(bytes), true) = (reader.content(wire)?, number == wanted) {
            found = Some(bytes);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut number, mut written) = (false, 0, String::new());
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((field, wire)) = reader.tag()? {
        match (field, reader.content(wire)?) {
            (1, Content::Varint(kind)) => is_text = kind == 1,
            (2, Content::Varint(value)) => number = value,
            (3, Content::Bytes(bytes)) => written = text(bytes),
            _ => {}
        }
    }
    Ok(if is_text { written.into() } else { scalar(Ty::Int32, number) })
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut reader = Reader::new(bytes, "Timestamp");
    while let Some((field, wire)) = reader.tag()? {
        match (field, reader.content(wire)?) {
            (1, Content::Varint(value)) => seconds = value.cast_signed(),
            (2, Content::Varint(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    let nanos = if micro { i32::try_from(nanos).unwrap_or_default() } else { 0 };
    Ok(Timestamp::new(seconds, nanos)
        .map_or(Value::Null, |moment| types::time::written(moment, micro).into()))
}

/// JSON text, or another protobuf message in its envelope.
fn raw(bytes: &[u8]) -> Result<Value, Malformed> {
    let content = inner(bytes, 1, "RawExtension")?.unwrap_or_default();
    if content.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(content).map_err(|error| Malformed::Other(error.to_string()))
}

fn strings(bytes: &[u8], wanted: u32) -> Result<Value, Malformed> {
    let mut list: Vec<Value> = Vec::new();
    let mut reader = Reader::new(bytes, "");
    while let Some((number, wire)) = reader.tag()? {
        if let (Content::Bytes(bytes), true) = (reader.content(wire)?, number == wanted) {
            list.push(text(bytes).into());
        }
    }
    Ok(list.into())
}
