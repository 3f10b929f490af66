//! A document as an object of a type, as Go's decoder reads it.
//!
//! A value of the wrong type is an error in the decoder's own words. What the type does not know, and what is said
//! twice, is noted and dropped; whether that is a warning or an error is the caller's decision.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD as STANDARD_ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Map, Value};

use super::json::{Members, Node, number};
use super::moment;
use crate::types::{self, Field, Message, Shape, Ty, quantity};

/// So many remarks are made about one document.
const MAX_REMARKS: usize = 100;

/// The one list that is not the same when it is empty as when it is missing.
const OWNERS: &str = "managedFields";

/// Base64 whose last letter has bits that mean nothing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD_ALPHABET,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes documents of one request.
#[derive(Debug, Default)]
pub(super) struct Decoder<'a> {
    /// Where the decoder is, as remarks say it: `.spec`, `.containers`, `[0]`.
    path: Vec<Step<'a>>,
    /// Where it is as errors say it: the fields' names without indices and keys.
    fields: Vec<&'a str>,
    /// The innermost object.
    object: &'static str,
    /// The first value of a wrong type. Decoding goes on: a text that is none of its kind is the greater error.
    mistyped: Option<String>,
    /// `unknown field "spec.foo"`, `duplicate field "spec.bar"`.
    remarks: Vec<String>,
}

#[derive(Debug)]
enum Step<'a> {
    Name(Cow<'a, str>),
    Index(usize),
}

/// An object, and what is to be said about the document.
pub(super) type Outcome = Result<(Map<String, Value>, Vec<String>), String>;

/// Decodes members into an object of a type. `within` is where they stand in the whole document.
pub(super) fn decode<'a>(table: &'static Message, members: Members<'a>, within: Option<&'a str>) -> Outcome {
    let mut decoder = Decoder {
        path: within.map(|name| Step::Name(name.into())).into_iter().collect(),
        ..Decoder::default()
    };
    let mut object = Map::new();
    decoder.members(table, members, &mut object)?;
    match decoder.mistyped {
        Some(error) => Err(error),
        None => Ok((object, decoder.remarks)),
    }
}

impl<'a> Decoder<'a> {
    fn remark(&mut self, what: &str, name: &str) {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) if path.is_empty() => path.push_str(name),
                Step::Name(name) => path.push_str(&format!(".{name}")),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        let remark = format!("{what} field {:?}", format!("{path}{dot}{name}"));
        if self.remarks.len() < MAX_REMARKS && !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    fn type_error(&self, found: &str, expected: &str) -> String {
        let (object, path) = (self.object, self.fields.join("."));
        if object.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {expected}");
        }
        format!("json: cannot unmarshal {found} into Go struct field {object}.{path} of type {expected}")
    }

    fn wrong(&mut self, found: &str, expected: &str) {
        if self.mistyped.is_none() {
            self.mistyped = Some(self.type_error(found, expected));
        }
    }

    fn members(
        &mut self,
        table: &'static Message,
        members: Members<'a>,
        object: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let mut seen: Vec<&'static str> = Vec::with_capacity(members.len().min(64));
        for (name, node) in members {
            let depth = self.fields.len();
            let Some(field) = locate(table, &name, &mut self.fields) else {
                self.remark("unknown", &name);
                continue;
            };
            if seen.contains(&field.json) {
                self.remark("duplicate", &name);
            } else {
                seen.push(field.json);
            }
            let outer = std::mem::replace(&mut self.object, table.name);
            self.fields.push(field.json);
            self.path.push(Step::Name(field.json.into()));
            self.field(field, node, object)?;
            self.path.pop();
            self.fields.truncate(depth);
            self.object = outer;
        }
        // An empty list of owners is the wish to forget them: it means something until the object is stored.
        let forget = object.get(OWNERS).and_then(Value::as_array).is_some_and(Vec::is_empty);
        types::finish(table, object);
        if forget {
            object.insert(OWNERS.to_owned(), Value::Array(Vec::new()));
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        node: Node<'a>,
        object: &mut Map<String, Value>,
    ) -> Result<(), String> {
        match (field.shape, node) {
            (_, Node::Null) => {}
            (Shape::Single, node) => {
                let before = object.remove(field.json);
                if let Some(value) = self.value(field.ty, field.go, node, before)? {
                    object.insert(field.json.to_owned(), value);
                }
            }
            (Shape::List, Node::Array(nodes)) => {
                let items = self.items(field.ty, field.go_item, nodes)?;
                object.insert(field.json.to_owned(), items.into());
            }
            (Shape::Map, Node::Object(members)) => {
                let before = object.remove(field.json);
                let map = self.map(field, members, before)?;
                object.insert(field.json.to_owned(), map);
            }
            (Shape::List | Shape::Map, node) => self.wrong(node.kind(), field.go),
        }
        Ok(())
    }

    fn items(&mut self, ty: Ty, go: &str, nodes: Vec<Node<'a>>) -> Result<Vec<Value>, String> {
        let mut items = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            self.path.push(Step::Index(index));
            items.push(self.value(ty, go, node, None)?.unwrap_or_else(|| ty.zero()));
            self.path.pop();
        }
        Ok(items)
    }

    fn map(
        &mut self,
        field: &'static Field,
        members: Members<'a>,
        before: Option<Value>,
    ) -> Result<Value, String> {
        let mut map = match before {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let mut fresh = Map::new();
        for (key, node) in members {
            if fresh.contains_key(&*key) {
                self.remark("duplicate", &key);
            }
            self.path.push(Step::Name(key.clone()));
            let value = self.value(field.ty, field.go_item, node, None)?;
            self.path.pop();
            let nothing = || match field.ty {
                Ty::Bytes => "".into(),
                ty => ty.zero(),
            };
            fresh.insert(key.into_owned(), value.unwrap_or_else(nothing));
        }
        map.append(&mut fresh);
        Ok(Value::Object(map))
    }

    /// A single value; nothing when there is none, or one of a wrong type. An error is one that ends everything.
    fn value(
        &mut self,
        ty: Ty,
        go: &str,
        node: Node<'a>,
        before: Option<Value>,
    ) -> Result<Option<Value>, String> {
        let value = match (ty, node) {
            (_, Node::Null) => return Ok(before),
            (Ty::String, Node::Text(text)) => text.into_owned().into(),
            (Ty::Bool, Node::Bool(flag)) => flag.into(),
            (Ty::Int32 | Ty::Int64, Node::Number(text)) => return Ok(self.integer(ty, go, &text)),
            (Ty::Double, Node::Number(text)) => number(&text),
            (Ty::Bytes, node) => return Ok(self.bytes(go, node)),
            (Ty::Quantity, node) => quantity(&node)?.into(),
            (Ty::IntOrString, Node::Text(text)) => text.into_owned().into(),
            (Ty::IntOrString, Node::Number(text)) => match text.parse::<i32>() {
                Ok(number) => number.into(),
                Err(_) => return Err(self.type_error(&format!("number {text}"), "int32")),
            },
            (Ty::IntOrString, node) => return Err(self.type_error(node.kind(), "int32")),
            (Ty::Time | Ty::MicroTime, Node::Text(text)) => {
                let moment = moment::canonical(&text, matches!(ty, Ty::MicroTime))?;
                return Ok(moment.map(Value::from));
            }
            (Ty::Time | Ty::MicroTime, node) => return Err(self.type_error(node.kind(), "string")),
            (Ty::RawExtension | Ty::FieldsV1 | Ty::Json | Ty::Any, node) => node.into_value(),
            (Ty::Strings, Node::Array(nodes)) => self.items(Ty::String, "string", nodes)?.into(),
            (Ty::SchemaOrBool | Ty::SchemaOrArray | Ty::SchemaOrStrings, node) => {
                return schema_or(ty, node).map(Some);
            }
            (Ty::Message(table), Node::Object(members)) => {
                let mut object = match before {
                    Some(Value::Object(object)) => object,
                    _ => Map::new(),
                };
                self.members(table, members, &mut object)?;
                Value::Object(object)
            }
            (_, node) => {
                self.wrong(node.kind(), go);
                return Ok(None);
            }
        };
        Ok(Some(value))
    }

    fn integer(&mut self, ty: Ty, go: &str, text: &str) -> Option<Value> {
        let parsed = match ty {
            Ty::Int32 => text.parse::<i32>().map(Value::from),
            _ => text.parse::<i64>().map(Value::from),
        };
        if parsed.is_err() {
            self.wrong(&format!("number {text}"), go);
        }
        parsed.ok()
    }

    fn bytes(&mut self, go: &str, node: Node<'a>) -> Option<Value> {
        match node {
            Node::Text(text) => {
                let text: String = text.chars().filter(|letter| !['\r', '\n'].contains(letter)).collect();
                if STANDARD.decode(&text).is_ok() {
                    return Some(text.into());
                }
                match LENIENT.decode(&text) {
                    Ok(bytes) => Some(STANDARD.encode(bytes).into()),
                    Err(_) => {
                        let at = illegal_byte(text.as_bytes());
                        self.mistyped
                            .get_or_insert_with(|| format!("illegal base64 data at input byte {at}"));
                        None
                    }
                }
            }
            Node::Array(nodes) => {
                let mut bytes = Vec::with_capacity(nodes.len());
                for node in nodes {
                    match node {
                        Node::Number(text) if text.parse::<u8>().is_ok() => {
                            bytes.extend(text.parse::<u8>());
                        }
                        Node::Number(text) => self.wrong(&format!("number {text}"), "uint8"),
                        Node::Null => bytes.push(0),
                        node => self.wrong(node.kind(), "uint8"),
                    }
                }
                Some(STANDARD.encode(bytes).into())
            }
            node => {
                self.wrong(node.kind(), go);
                None
            }
        }
    }
}

/// A field by its name, with the embedded messages on the way to it.
fn locate(table: &'static Message, name: &str, way: &mut Vec<&str>) -> Option<&'static Field> {
    if let Some(field) = table.slots.iter().find(|field| field.json == name && !field.inline()) {
        return Some(field);
    }
    for inner in table.slots.iter().filter(|field| field.inline()).filter_map(Field::message) {
        way.push(inner.name);
        if let Some(field) = locate(inner, name, way) {
            return Some(field);
        }
        way.pop();
    }
    None
}

/// Where Go's decoder stops: at a letter of no meaning, or at the group that is not complete.
fn illegal_byte(text: &[u8]) -> usize {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+' || *byte == b'/';
    let digits = text.iter().take_while(|byte| is_digit(byte)).count();
    match text.get(digits) {
        None => text.len() / 4 * 4,
        Some(b'=') if digits % 4 >= 2 => {
            let padding = 4 - digits % 4;
            let complete =
                text.get(digits..digits + padding).is_some_and(|end| end.iter().all(|b| *b == b'='));
            if complete { digits + padding } else { (digits + padding).min(text.len()) }
        }
        Some(_) => digits,
    }
}

fn quantity(node: &Node<'_>) -> Result<String, String> {
    let text = match node {
        Node::Text(text) => text.trim(),
        Node::Number(text) => text,
        Node::Null | Node::Bool(_) | Node::Array(_) | Node::Object(_) => "no number",
    };
    quantity::canonical(text).map_err(|error| error.to_string())
}

/// A schema in a place where something else may stand too. It is decoded by itself: its errors know no outer path.
fn schema_or(ty: Ty, node: Node<'_>) -> Result<Value, String> {
    let schema =
        |members| decode(types::json_schema(), members, None).map(|(object, _)| Value::Object(object));
    match (ty, node) {
        (_, Node::Object(members)) => schema(members),
        (Ty::SchemaOrBool, Node::Bool(flag)) => Ok(flag.into()),
        (Ty::SchemaOrBool, _) => Err("boolean or JSON schema expected".into()),
        (Ty::SchemaOrArray, Node::Array(nodes)) => {
            let mut schemas = Vec::with_capacity(nodes.len());
            for node in nodes {
                match node {
                    Node::Object(members) => schemas.push(schema(members)?),
                    Node::Null => schemas.push(schema(Vec::new())?),
                    node => return Err(Decoder::default().type_error(node.kind(), "v1.JSONSchemaProps")),
                }
            }
            Ok(schemas.into())
        }
        (_, Node::Array(nodes)) => {
            let mut decoder = Decoder::default();
            let items = decoder.items(Ty::String, "string", nodes)?;
            decoder.mistyped.map_or_else(|| Ok(items.into()), Err)
        }
        _ => Ok(Value::Null),
    }
}
