//! An object without some of its places.

use serde_json::{Map, Value};

use super::element;
use super::set::{Node, Set};
use super::shape::{Atom, Shape};

/// Removes places from an object that fits the shape.
pub(super) fn remove(shape: Shape<'_>, value: &Value, places: &Set) -> Value {
    match shape.atom(Some(value)) {
        Atom::Scalar(_) => value.clone(),
        Atom::List(list) => {
            let items = value.as_array().filter(|_| !list.atomic());
            let mut kept = Vec::new();
            for item in items.into_iter().flatten() {
                let node = list.step(item).ok().and_then(|key| places.get(&key));
                kept.extend(part(list.item(), item, node));
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        Atom::Map(map) => {
            let members = value.as_object().filter(|_| !map.atomic());
            let mut kept = Map::new();
            for (name, value) in members.into_iter().flatten() {
                let shape = map.member(name).0.unwrap_or(Shape::Deduced);
                if let Some(value) = part(shape, value, places.get(&element::field(name))) {
                    kept.insert(name.clone(), value);
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
    }
}

/// What is left of a part; nothing if it goes as a whole.
fn part(shape: Shape<'_>, value: &Value, node: Option<&Node>) -> Option<Value> {
    match node {
        None => Some(value.clone()),
        Some(node) if node.member => None,
        Some(node) => Some(remove(shape, value, &node.below)),
    }
}

/// Adds the fields on the way to the places of a set, where they have a type of their own. Sets do not name them, as
/// nobody owns them; they go when everything in them does.
pub(super) fn with_fields(shape: Shape<'_>, places: &Set) -> Set {
    let mut all = Set::new();
    for (key, node) in places.iter() {
        let (mut member, mut below) = (node.member, None);
        if let (Some(name), Some(map)) = (key.strip_prefix("f:"), shape.map()) {
            let (shape, named) = map.member(name);
            member |= named && !node.below.is_empty();
            below = shape;
        } else if let (true, Some(list)) = (key.starts_with("k:"), shape.list()) {
            below = Some(list.item());
        }
        // Below a place of unknown type no field has a type.
        let below = with_fields(below.unwrap_or(Shape::Deduced), &node.below);
        all.put(key.to_owned(), Node { member, below });
    }
    all
}
