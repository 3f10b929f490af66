//! The types of CEL, and when one can stand for another.

use std::fmt;
use std::sync::Arc;

use super::super::node::Node;

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Type<'n> {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Duration,
    Timestamp,
    /// Everything: checked when the rule runs.
    Dyn,
    /// The type of an expression with an error in it: nothing more is said about it.
    Error,
    List(Arc<Self>),
    Map(Arc<Self>, Arc<Self>),
    Optional(Arc<Self>),
    /// The type of types.
    Meta(Option<Arc<Self>>),
    /// An object of the schema.
    Object(Object<'n>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Named(&'static str),
    /// A type that is still to be found out.
    Variable(usize),
    /// A type parameter of a declared function.
    Parameter(char),
}

/// An object of the schema. Its fields are declared when they are selected.
#[derive(Clone, Debug)]
pub(super) struct Object<'n> {
    pub(super) name: Arc<str>,
    pub(super) shape: Shape<'n>,
}

/// What the fields of an object are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'n> {
    Node {
        node: &'n Node,
        /// The root of a resource.
        resource: bool,
    },
    /// The metadata of a resource, as far as rules see it.
    Metadata,
}

impl<'n> Type<'n> {
    pub(super) fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// What is inside an optional, and whether it was one.
    pub(super) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    pub(super) fn is_wild(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Types that `null` can stand for.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Object(_)
                | Self::Named(_)
                | Self::Duration
                | Self::Timestamp
        )
    }

    /// The parts of a type.
    pub(super) fn parts(&self) -> [Option<&Arc<Self>>; 2] {
        match self {
            Self::List(part) | Self::Optional(part) | Self::Meta(Some(part)) => [Some(part), None],
            Self::Map(key, value) => [Some(key), Some(value)],
            _ => [None, None],
        }
    }

    /// The same type with other parts.
    pub(super) fn with_parts(&self, mut part: impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(item) => Self::list(part(item)),
            Self::Optional(inner) => Self::optional(part(inner)),
            Self::Meta(Some(inner)) => Self::Meta(Some(Arc::new(part(inner)))),
            Self::Map(key, value) => Self::map(part(key), part(value)),
            other => other.clone(),
        }
    }

    /// Whether two types are of the same sort, whatever their parts are.
    pub(super) fn same_sort(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(one), Self::Object(two)) => one.name == two.name,
            (Self::Named(one), Self::Named(two)) => one == two,
            (Self::Variable(one), Self::Variable(two)) => one == two,
            (Self::Parameter(one), Self::Parameter(two)) => one == two,
            (Self::Meta(one), Self::Meta(two)) => one.is_some() == two.is_some(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Meta(Some(inner)) => write!(f, "type({inner})"),
            Self::Meta(None) => f.write_str("type"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Named(name) => f.write_str(name),
            Self::Variable(number) => write!(f, "_var{number}"),
            Self::Parameter(letter) => write!(f, "{letter}"),
        }
    }
}
