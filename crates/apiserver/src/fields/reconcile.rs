//! Owners of places that became one value: a schema may turn a list or map atomic while there are objects.

use super::set::{Node, Set};
use super::shape::{Atom, MapShape, Shape};

/// The set with what is inside of atomic places replaced by these places.
pub(super) fn reconcile(shape: Shape<'_>, set: Set) -> Set {
    let mut node = Node { member: false, below: set };
    place(shape, &mut node);
    node.below
}

fn place(shape: Shape<'_>, node: &mut Node) {
    match shape.atom(None) {
        Atom::Scalar(_) => {}
        Atom::List(list) if list.atomic() => {
            if !node.below.is_empty() {
                *node = Node::leaf();
            }
        }
        Atom::List(list) => node.below.each(|_, child| place(list.item(), child)),
        Atom::Map(map) => members(map, node),
    }
}

fn members(map: MapShape<'_>, node: &mut Node) {
    if map.is_untyped() {
        return;
    }
    if map.atomic() {
        if !node.below.is_empty() {
            *node = Node::leaf();
        }
        return;
    }
    node.below.each(|key, child| {
        let shape = key.strip_prefix("f:").and_then(|name| map.member(name).0);
        if let Some(shape) = shape {
            place(shape, child);
        }
    });
}
