//! What may stand at a place of an object, and how writers share it: as a whole, by member, by item.

use serde_json::Value;
use std::borrow::Cow;

use super::element;
use super::known::Known;
use crate::schema::Structural;
use crate::schema::view::{Others, View, ViewKind, ViewList};
use crate::types;

/// The type of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    /// A place in the schema of a custom resource.
    Custom(View<'a>),
    /// A custom resource, or one inside another: it has metadata whatever its schema says.
    Resource(View<'a>),
    /// A place in a built-in type.
    Known(Known),
    /// Anything: objects are shared by member, lists are one value.
    Deduced,
    /// Anything, as one value.
    Opaque,
}

/// What a scalar may be. Only what a client applies is checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Any,
    Text,
    Number,
    Bool,
}

/// The type of a place once it is known whether it holds an object, a list or something else.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'a> {
    Scalar(Scalar),
    Map(MapShape<'a>),
    List(ListShape<'a>),
}

impl Atom<'_> {
    pub(super) fn same_kind(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Scalar(_), Self::Scalar(_))
                | (Self::Map(_), Self::Map(_))
                | (Self::List(_), Self::List(_))
        )
    }
}

/// An object.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapShape<'a>(pub(super) Shape<'a>);

/// A list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListShape<'a>(pub(super) Shape<'a>);

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items<'a> {
    /// They are not: the list is one value.
    Atomic,
    /// By what they are.
    Set,
    /// By some of their fields.
    Keyed(Keys<'a>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Keys<'a> {
    Custom(&'a [String]),
    Known(&'static [&'static str]),
}

impl<'a> Keys<'a> {
    fn iter(self) -> impl Iterator<Item = &'a str> {
        let (custom, known) = match self {
            Self::Custom(keys) => (keys, [].as_slice()),
            Self::Known(keys) => ([].as_slice(), keys),
        };
        custom.iter().map(String::as_str).chain(known.iter().copied())
    }

    fn quoted(self) -> String {
        let quoted: Vec<String> = self.iter().map(|key| format!("{key:?}")).collect();
        format!("[{}]", quoted.join(" "))
    }
}

impl<'a> Shape<'a> {
    /// The objects of a custom resource.
    pub(crate) fn resource(schema: &'a Structural) -> Self {
        Self::Resource(schema.view())
    }

    /// The objects of a built-in resource.
    pub(crate) fn built_in(message: &'static types::Message) -> Self {
        Self::Known(Known::Object(message))
    }

    /// The one type a place has; nothing where anything may stand.
    fn only(self) -> Option<Atom<'a>> {
        match self {
            Self::Resource(_) => Some(Atom::Map(MapShape(self))),
            Self::Custom(view) => view.kind().map(|kind| match kind {
                ViewKind::Object => Atom::Map(MapShape(self)),
                ViewKind::Array => Atom::List(ListShape(self)),
                ViewKind::Text { plain: true } => Atom::Scalar(Scalar::Text),
                ViewKind::Text { plain: false } => Atom::Scalar(Scalar::Any),
                ViewKind::Number => Atom::Scalar(Scalar::Number),
                ViewKind::Bool => Atom::Scalar(Scalar::Bool),
            }),
            Self::Known(known) => known.only(),
            Self::Deduced | Self::Opaque => None,
        }
    }

    /// The type that applies to a value. Where anything may stand and nothing tells what does, it is an object.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        self.only().unwrap_or(match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Atom::Scalar(Scalar::Any),
            Some(Value::Array(_)) => Atom::List(ListShape(self)),
            Some(Value::Null | Value::Object(_)) | None => Atom::Map(MapShape(self)),
        })
    }

    /// The type of objects that may stand here.
    pub(super) fn map(self) -> Option<MapShape<'a>> {
        match self.only() {
            Some(Atom::Map(map)) => Some(map),
            None => Some(MapShape(self)),
            Some(_) => None,
        }
    }

    /// The type of lists that may stand here.
    pub(super) fn list(self) -> Option<ListShape<'a>> {
        match self.only() {
            Some(Atom::List(list)) => Some(list),
            None => Some(ListShape(self)),
            Some(_) => None,
        }
    }

    fn of(view: View<'a>) -> Self {
        if view.embedded() { Self::Resource(view) } else { Self::Custom(view) }
    }
}

impl<'a> MapShape<'a> {
    /// Whether it is one value.
    pub(super) fn atomic(self) -> bool {
        match self.0 {
            Shape::Custom(view) | Shape::Resource(view) => view.atomic_map(),
            Shape::Known(known) => known.atomic(),
            Shape::Deduced => false,
            Shape::Opaque => true,
        }
    }

    /// The type of a member that has one of its own.
    pub(super) fn named(self, name: &str) -> Option<Shape<'a>> {
        match self.0 {
            Shape::Resource(view) => match name {
                "metadata" => Some(Shape::Known(Known::Object(types::object_meta()))),
                "apiVersion" | "kind" => Some(Shape::Known(Known::Text)),
                name => view.property(name).map(Shape::of),
            },
            Shape::Custom(view) => view.property(name).map(Shape::of),
            Shape::Known(known) => known.field(name),
            Shape::Deduced | Shape::Opaque => None,
        }
    }

    /// The type of the members that have none of their own, if there may be such members.
    pub(super) fn others(self) -> Option<Shape<'a>> {
        match self.0 {
            Shape::Custom(view) | Shape::Resource(view) => match view.others() {
                Others::Like(view) => Some(Shape::of(view)),
                Others::Any => Some(Shape::Deduced),
                Others::None => None,
            },
            Shape::Known(known) => known.others(),
            Shape::Deduced => Some(Shape::Deduced),
            Shape::Opaque => Some(Shape::Opaque),
        }
    }

    /// The type of a member, and whether that is its own.
    pub(super) fn member(self, name: &str) -> (Option<Shape<'a>>, bool) {
        match self.named(name) {
            Some(shape) => (Some(shape), true),
            None => (self.others(), false),
        }
    }

    /// Whether nothing is known of its members.
    pub(super) fn is_untyped(self) -> bool {
        match self.0 {
            Shape::Deduced | Shape::Opaque => true,
            Shape::Custom(view) => matches!(view.others(), Others::Any) && !view.has_properties(),
            Shape::Resource(_) | Shape::Known(_) => false,
        }
    }
}

impl<'a> ListShape<'a> {
    pub(super) fn items(self) -> Items<'a> {
        match self.0 {
            Shape::Custom(view) | Shape::Resource(view) => match view.list() {
                ViewList::Atomic => Items::Atomic,
                ViewList::Set => Items::Set,
                ViewList::Keyed(keys) => Items::Keyed(Keys::Custom(keys)),
            },
            Shape::Known(known) => known.items(),
            Shape::Deduced | Shape::Opaque => Items::Atomic,
        }
    }

    pub(super) fn atomic(self) -> bool {
        matches!(self.items(), Items::Atomic)
    }

    /// The type of an item.
    pub(super) fn item(self) -> Shape<'a> {
        match self.0 {
            Shape::Custom(view) | Shape::Resource(view) => view.items().map_or(Shape::Opaque, Shape::of),
            Shape::Known(known) => known.item(),
            Shape::Deduced | Shape::Opaque => Shape::Opaque,
        }
    }

    /// The value a key of an item has when the item does not say.
    fn default_of(self, key: &str) -> Option<Cow<'a, Value>> {
        match self.item() {
            Shape::Custom(view) | Shape::Resource(view) => view.default_of(key).map(Cow::Borrowed),
            Shape::Known(known) => known.default_of(key),
            Shape::Deduced | Shape::Opaque => None,
        }
    }

    /// The step to an item, which is not in an atomic list.
    pub(super) fn step(self, item: &Value) -> Result<String, String> {
        match self.items() {
            Items::Atomic => Err("invalid indexing of non-associative list".into()),
            Items::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                item => Ok(element::member(item)),
            },
            Items::Keyed(keys) => self.keyed(keys, item),
        }
    }

    fn keyed(self, keys: Keys<'a>, item: &Value) -> Result<String, String> {
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let value = |key| map.get(key).map(Cow::Borrowed).or_else(|| self.default_of(key));
        let mut fields: Vec<(&str, Cow<'_, Value>)> =
            keys.iter().filter_map(|key| Some((key, value(key)?))).collect();
        if fields.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {} (and doesn't have default \
                 values for any key fields)",
                keys.quoted()
            ));
        }
        fields.sort_unstable_by_key(|(name, _)| *name);
        Ok(element::item(fields.iter().map(|(name, value)| (*name, value.as_ref()))))
    }
}
