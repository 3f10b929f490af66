//! Built-in types as the places that writers share.

use serde_json::{Map, Value};
use std::borrow::Cow;

use super::shape::{Atom, Items, Keys, ListShape, MapShape, Scalar, Shape};
use crate::types::{Field, ListType, Message, Shape as Count, Ty};

/// A place in a built-in type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// An object.
    Object(&'static Message),
    /// All the values of a field.
    Field(&'static Field),
    /// One item of a field that is a list, or one member of a field that is a map.
    One(&'static Field),
    /// A text that no table tells of.
    Text,
}

impl Known {
    /// The type of a single value of a field.
    fn ty(self) -> Option<Ty> {
        match self {
            Self::Field(field) if field.shape == Count::Single => Some(field.ty),
            Self::One(field) => Some(field.ty),
            Self::Text => Some(Ty::String),
            Self::Field(_) | Self::Object(_) => None,
        }
    }

    /// The one type of the place; nothing where anything may stand.
    pub(super) fn only(self) -> Option<Atom<'static>> {
        let shape = Shape::Known(self);
        match self {
            Self::Object(_) => return Some(Atom::Map(MapShape(shape))),
            Self::Field(field) => match field.shape {
                Count::List => return Some(Atom::List(ListShape(shape))),
                Count::Map => return Some(Atom::Map(MapShape(shape))),
                Count::Single => {}
            },
            Self::One(_) | Self::Text => {}
        }
        match self.ty()? {
            Ty::String | Ty::Bytes => Some(Atom::Scalar(Scalar::Text)),
            Ty::Bool => Some(Atom::Scalar(Scalar::Bool)),
            Ty::Int32 | Ty::Int64 | Ty::Double => Some(Atom::Scalar(Scalar::Number)),
            Ty::Quantity | Ty::IntOrString | Ty::Time | Ty::MicroTime => Some(Atom::Scalar(Scalar::Any)),
            Ty::Strings => Some(Atom::List(ListShape(shape))),
            Ty::FieldsV1 | Ty::Message(_) => Some(Atom::Map(MapShape(shape))),
            Ty::RawExtension
            | Ty::Json
            | Ty::SchemaOrBool
            | Ty::SchemaOrArray
            | Ty::SchemaOrStrings
            | Ty::Any => None,
        }
    }

    /// The message of an object that stands here.
    fn message(self) -> Option<&'static Message> {
        match (self, self.ty()) {
            (Self::Object(message), _) | (_, Some(Ty::Message(message))) => Some(message),
            _ => None,
        }
    }

    /// Whether an object that stands here is one value.
    pub(super) fn atomic(self) -> bool {
        let field = match self {
            Self::Field(field) => field.atomic,
            Self::Object(_) | Self::One(_) | Self::Text => false,
        };
        field || self.message().map_or(matches!(self.ty(), Some(Ty::RawExtension)), |message| message.atomic)
    }

    pub(super) fn field(self, name: &str) -> Option<Shape<'static>> {
        self.message()?.field(name).map(|field| Shape::Known(Self::Field(field)))
    }

    /// The type of members that are not fields.
    pub(super) fn others(self) -> Option<Shape<'static>> {
        match self {
            Self::Field(field) if field.shape == Count::Map => Some(Shape::Known(Self::One(field))),
            _ => match self.ty() {
                Some(Ty::RawExtension) => Some(Shape::Opaque),
                Some(Ty::Message(message)) if !message.slots.is_empty() => None,
                Some(_) => Some(Shape::Deduced),
                None => None,
            },
        }
    }

    pub(super) fn items(self) -> Items<'static> {
        match self {
            Self::Field(field) if field.shape == Count::List => match field.list {
                ListType::Atomic => Items::Atomic,
                ListType::Set => Items::Set,
                ListType::Map(keys) => Items::Keyed(Keys::Known(keys)),
            },
            _ => Items::Atomic,
        }
    }

    pub(super) fn item(self) -> Shape<'static> {
        match self {
            Self::Field(field) if field.shape == Count::List => Shape::Known(Self::One(field)),
            _ => match self.ty() {
                Some(Ty::Strings) => Shape::Known(Self::Text),
                _ => Shape::Opaque,
            },
        }
    }

    /// What a field of an object that stands here is when the object lacks it, if that tells items apart.
    pub(super) fn default_of(self, name: &str) -> Option<Cow<'static, Value>> {
        let field = self.message()?.field(name)?;
        let value = match field.default {
            // A field that is always written is empty where it is missing.
            "" if !field.omit_empty && !field.pointer && field.shape == Count::Single => Some(zero(field.ty)),
            text => serde_json::from_str(text).ok(),
        };
        value.filter(|value| !value.is_null()).map(Cow::Owned)
    }
}

/// An object of a type before anybody wrote to it. Parts that are not behind a pointer are always there: nobody adds
/// them, so nobody owns them.
pub(crate) fn blank(message: &'static Message) -> Value {
    let members = message.fields().into_iter().filter_map(|field| {
        let part = match (field.shape, field.ty) {
            (Count::Single, Ty::Message(message)) if !field.pointer => blank(message),
            // To be left out when empty means nothing for a time: Go writes null.
            (Count::Single, Ty::Time | Ty::MicroTime) if !field.pointer && !field.omit_zero => Value::Null,
            _ if field.omit_empty => return None,
            (Count::List | Count::Map, _) => Value::Null,
            (Count::Single, _) if field.pointer => Value::Null,
            (Count::Single, ty) => zero(ty),
        };
        Some((field.json.to_owned(), part))
    });
    Value::Object(members.collect::<Map<_, _>>())
}

fn zero(ty: Ty) -> Value {
    match ty {
        Ty::String => "".into(),
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Double | Ty::IntOrString => 0.into(),
        Ty::Quantity => "0".into(),
        _ => Value::Null,
    }
}
