//! The places an applied configuration names.

use serde_json::Value;
use std::collections::BTreeMap;

use super::element;
use super::set::{Node, Set};
use super::shape::{Atom, ListShape, Shape};

/// Every leaf of an object, and every item of the lists that are told apart.
pub(super) fn collect(shape: Shape<'_>, object: &Value) -> Result<Set, String> {
    place(shape, object).map(|node| node.below)
}

fn place(shape: Shape<'_>, value: &Value) -> Result<Node, String> {
    match shape.atom(Some(value)) {
        Atom::Scalar(_) => Ok(Node::leaf()),
        Atom::List(list) if list.atomic() => Ok(Node::leaf()),
        Atom::List(list) => items(list, value.as_array().map(Vec::as_slice).unwrap_or_default()),
        Atom::Map(map) if map.atomic() => Ok(Node::leaf()),
        Atom::Map(map) => {
            let mut node = Node::default();
            for (name, value) in value.as_object().into_iter().flatten() {
                let (shape, named) = map.member(name);
                let mut child = place(shape.unwrap_or(Shape::Deduced), value)?;
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                child.member |= empty || !named;
                node.below.put(element::field(name), child);
            }
            Ok(node)
        }
    }
}

fn items(list: ListShape<'_>, items: &[Value]) -> Result<Node, String> {
    let mut found: BTreeMap<String, Option<&Value>> = BTreeMap::new();
    for item in items {
        // Of items that are told apart by nothing, only their number of places is known: one.
        found.entry(list.step(item)?).and_modify(|twin| *twin = None).or_insert(Some(item));
    }
    let mut node = Node::default();
    for (key, item) in found {
        let mut child = match item {
            Some(item) => place(list.item(), item)?,
            None => Node::default(),
        };
        child.member = true;
        node.below.put(key, child);
    }
    Ok(node)
}
