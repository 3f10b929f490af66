//! What the schema says about types.

use std::sync::Arc;

use super::super::celvalue::escape;
use super::super::node::{Additional, Kind, Node};
use super::types::{Object, Shape, Type};

/// The type of the values of a node. Nothing for those that rules do not see: values without a type, and lists and maps
/// of them.
pub(super) fn declared<'n>(node: &'n Node, name: &str, resource: bool) -> Option<Type<'n>> {
    if node.int_or_string {
        return Some(Type::Dyn);
    }
    match node.kind? {
        Kind::Boolean => Some(Type::Bool),
        Kind::Integer => Some(Type::Int),
        Kind::Number => Some(Type::Double),
        Kind::String => Some(match node.format.as_deref() {
            Some("byte") => Type::Bytes,
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Timestamp,
            _ => Type::String,
        }),
        Kind::Array => {
            let items = node.items.as_deref()?;
            declared(items, &format!("{name}.@idx"), items.embedded).map(Type::list)
        }
        Kind::Object => match &node.additional {
            Additional::Schema(values) => declared(values, &format!("{name}.@elem"), values.embedded)
                .map(|values| Type::map(Type::String, values)),
            Additional::Any | Additional::None => {
                Some(Type::Object(Object { name: Arc::from(name), shape: Shape::Node { node, resource } }))
            }
        },
    }
}

impl<'n> Object<'n> {
    /// The type of a field, under its name in rules.
    pub(super) fn field(&self, field: &str) -> Option<Type<'n>> {
        let name = format!("{}.{field}", self.name);
        let (node, resource) = match self.shape {
            Shape::Metadata => return matches!(field, "name" | "generateName").then_some(Type::String),
            Shape::Node { node, resource } => (node, resource),
        };
        if resource && !declares_metadata(node) {
            match field {
                "apiVersion" | "kind" => return Some(Type::String),
                "metadata" => {
                    return Some(Type::Object(Object { name: name.into(), shape: Shape::Metadata }));
                }
                _ => {}
            }
        }
        // Words of the language are escaped, but may be written as they are.
        let bare = escape(field);
        let mut named =
            node.properties.iter().filter(|(name, _)| [field, &bare].contains(&escape(name).as_str()));
        let (_, property) = named.next()?;
        declared(property, &name, property.embedded)
    }
}

/// Whether a schema says itself what every resource has.
fn declares_metadata(node: &Node) -> bool {
    let is = |node: &Node, name: &str, kind: Kind| {
        node.properties.get(name).is_some_and(|property| property.kind == Some(kind))
    };
    is(node, "kind", Kind::String)
        && is(node, "apiVersion", Kind::String)
        && node.properties.get("metadata").is_some_and(|metadata| {
            metadata.kind == Some(Kind::Object)
                && is(metadata, "name", Kind::String)
                && is(metadata, "generateName", Kind::String)
        })
}
