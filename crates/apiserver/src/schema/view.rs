//! What the merging of objects needs to know of a schema: which places are kept together and which are told apart.

use serde_json::Value;

use super::Structural;
use super::node::{Kind, ListType, Node};

impl Structural {
    /// The root of the tree.
    pub(crate) fn view(&self) -> View<'_> {
        View { node: &self.root, preserve: self.root.preserve }
    }
}

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    node: &'a Node,
    /// Whether unknown fields are kept here: the places below a node that says so keep them too.
    preserve: bool,
}

/// The type of a place, if it has only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Object,
    Array,
    /// A string whose format somebody else checks counts as any scalar.
    Text {
        plain: bool,
    },
    Number,
    Bool,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewList<'a> {
    Atomic,
    Set,
    Keyed(&'a [String]),
}

/// What is known of the members of an object that are no properties of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Others<'a> {
    /// They are not allowed.
    None,
    /// They are anything.
    Any,
    /// They are all alike.
    Like(View<'a>),
}

impl<'a> View<'a> {
    fn below(self, node: &'a Node) -> Self {
        Self { node, preserve: self.preserve || node.preserve }
    }

    pub(crate) fn kind(self) -> Option<ViewKind> {
        self.node.kind.map(|kind| match kind {
            Kind::Object => ViewKind::Object,
            Kind::Array => ViewKind::Array,
            Kind::String => ViewKind::Text {
                plain: self.node.checks.as_ref().is_none_or(|checks| checks.format.is_none()),
            },
            Kind::Integer | Kind::Number => ViewKind::Number,
            Kind::Boolean => ViewKind::Bool,
        })
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        self.node.properties.get(name).map(|node| self.below(node))
    }

    pub(crate) fn has_properties(self) -> bool {
        !self.node.properties.is_empty()
    }

    pub(crate) fn others(self) -> Others<'a> {
        match self.node.additional.schema() {
            Some(node) => Others::Like(self.below(node)),
            None if self.preserve || self.node.properties.is_empty() => Others::Any,
            None if matches!(self.node.additional, super::node::Additional::Any) => Others::Any,
            None => Others::None,
        }
    }

    pub(crate) fn items(self) -> Option<Self> {
        self.node.items.as_deref().map(|node| self.below(node))
    }

    pub(crate) fn list(self) -> ViewList<'a> {
        match &self.node.list {
            ListType::Atomic => ViewList::Atomic,
            ListType::Set => ViewList::Set,
            ListType::Map(keys) => ViewList::Keyed(keys),
        }
    }

    pub(crate) fn atomic_map(self) -> bool {
        self.node.atomic_map
    }

    /// Whether the place holds a whole object, with the fields every object has.
    pub(crate) fn embedded(self) -> bool {
        self.node.embedded
    }

    pub(crate) fn default_of(self, property: &str) -> Option<&'a Value> {
        self.node.properties.get(property)?.default.as_ref()
    }
}
