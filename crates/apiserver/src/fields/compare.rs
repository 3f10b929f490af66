//! What a write changed.

use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::element;
use super::set::{Node, Set};
use super::shape::{Atom, ListShape, MapShape, Shape};

/// The places in which two versions of an object differ. No place is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Forgets everything at and below some places.
    pub(super) fn ignore(&mut self, places: &Set) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.cut(places);
        }
    }

    /// The places that have another value now.
    pub(super) fn into_taken(self) -> Set {
        let mut taken = self.added;
        taken.union(self.modified);
        taken
    }

    /// What of a set has another value now.
    pub(super) fn taken_of(&self, set: &Set) -> Set {
        let mut taken = set.intersection(&self.added);
        taken.union(set.intersection(&self.modified));
        taken
    }
}

/// Compares two versions of an object.
pub(super) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Result<Changes, String> {
    let mut diff = Diff::default();
    place(shape, Some(old), Some(new), &mut diff)?;
    Ok(Changes { added: diff.added.below, modified: diff.modified.below, removed: diff.removed.below })
}

/// The changes at and below one place.
#[derive(Default)]
struct Diff {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Diff {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Takes over what changed in a part.
    fn put(&mut self, part: Self, key: impl FnOnce() -> String) {
        if part.is_empty() {
            return;
        }
        let key = key();
        // Nearly always there is one kind of change: the key is copied only where there are more.
        let Self { added, modified, removed } = part;
        match (added.is_empty(), modified.is_empty(), removed.is_empty()) {
            (false, true, true) => self.added.below.put(key, added),
            (true, false, true) => self.modified.below.put(key, modified),
            (true, true, false) => self.removed.below.put(key, removed),
            _ => {
                self.added.below.put(key.clone(), added);
                self.modified.below.put(key.clone(), modified);
                self.removed.below.put(key, removed);
            }
        }
    }
}

/// Whether two values are equal. Numbers are, however they are written.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

fn place(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, diff: &mut Diff) -> Result<(), String> {
    match (old, new) {
        (Some(old), Some(new)) if old == new => Ok(()),
        (Some(old), Some(new)) => {
            let (left, right) = (shape.atom(Some(old)), shape.atom(Some(new)));
            if !left.same_kind(&right) {
                descend(left, old, new, diff)?;
            }
            descend(right, old, new, diff)
        }
        (None, Some(new)) => whole(shape, new).map(|node| diff.added = node),
        (Some(old), None) => whole(shape, old).map(|node| diff.removed = node),
        (None, None) => Ok(()),
    }
}

/// A place that came or went with everything in it: all of it is in the set.
fn whole(shape: Shape<'_>, value: &Value) -> Result<Node, String> {
    let mut node = Node::leaf();
    match shape.atom(Some(value)) {
        Atom::Scalar(_) => {}
        Atom::List(list) if list.atomic() => {}
        Atom::List(list) => {
            let mut found: BTreeMap<String, Option<&Value>> = BTreeMap::new();
            for item in list_of(value) {
                found.entry(list.step(item)?).and_modify(|twin| *twin = None).or_insert(Some(item));
            }
            node.below = Set::with_capacity(found.len());
            for (key, item) in found {
                let item = item.map(|item| whole(list.item(), item)).transpose()?;
                node.below.put(key, item.unwrap_or_else(Node::leaf));
            }
        }
        Atom::Map(map) if map.atomic() => {}
        Atom::Map(map) => {
            node.below = Set::with_capacity(value.as_object().map_or(0, serde_json::Map::len));
            for (name, value) in value.as_object().into_iter().flatten() {
                let part = whole(map.member(name).0.unwrap_or(Shape::Deduced), value)?;
                node.below.put(element::field(name), part);
            }
        }
    }
    Ok(node)
}

/// Compares two values as one type.
fn descend(atom: Atom<'_>, old: &Value, new: &Value, diff: &mut Diff) -> Result<(), String> {
    let is_empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
    match atom {
        Atom::List(list) if !list.atomic() => {
            let (left, right) = (list_of(old), list_of(new));
            if !left.is_empty() || !right.is_empty() {
                return items(list, left, right, diff);
            }
        }
        Atom::Map(map) if !map.atomic() => {
            if !is_empty(old) || !is_empty(new) {
                return members(map, old, new, diff);
            }
        }
        Atom::Scalar(_) | Atom::List(_) | Atom::Map(_) => {}
    }
    diff.modified.member |= !same(old, new);
    Ok(())
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members(map: MapShape<'_>, old: &Value, new: &Value, diff: &mut Diff) -> Result<(), String> {
    let (old, new) = (old.as_object(), new.as_object());
    let mut visit = |name: &str, left: Option<&Value>, right: Option<&Value>| {
        if let (Some(left), Some(right)) = (left, right)
            && left == right
        {
            return Ok(());
        }
        let mut part = Diff::default();
        place(map.member(name).0.unwrap_or(Shape::Deduced), left, right, &mut part)?;
        diff.put(part, || element::field(name));
        Ok::<(), String>(())
    };
    // Both are sorted, and so is what is made of them.
    let (mut old, mut new) = (old.into_iter().flatten().peekable(), new.into_iter().flatten().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(()),
        };
        let left = if order.is_le() { old.next() } else { None };
        let right = if order.is_ge() { new.next() } else { None };
        if let Some((name, _)) = left.or(right) {
            visit(name, left.map(|(_, value)| value), right.map(|(_, value)| value))?;
        }
    }
}

/// The items that are found by one step: more than one where the list has duplicates.
#[derive(Default)]
struct Pair<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}

fn items(list: ListShape<'_>, old: &[Value], new: &[Value], diff: &mut Diff) -> Result<(), String> {
    let mut pairs: BTreeMap<String, Pair<'_>> = BTreeMap::new();
    for item in old {
        pairs.entry(list.step(item)?).or_default().old.push(item);
    }
    for item in new {
        pairs.entry(list.step(item)?).or_default().new.push(item);
    }
    for (key, pair) in pairs {
        let mut part = Diff::default();
        match (pair.old.as_slice(), pair.new.as_slice()) {
            ([] | [_], [] | [_]) => {
                place(list.item(), pair.old.first().copied(), pair.new.first().copied(), &mut part)?;
            }
            // Duplicates are one value, as nothing tells them apart.
            (old @ [_, _, ..], new @ [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a, b));
                part.modified.member = !equal;
            }
            ([_, _, ..], new) => {
                if let Some(item) = new.first() {
                    place(list.item(), None, Some(item), &mut part)?;
                }
                part.removed.member = true;
            }
            (old, _) => {
                if let Some(item) = old.first() {
                    place(list.item(), Some(item), None, &mut part)?;
                }
                part.added.member = true;
            }
        }
        diff.put(part, || key);
    }
    Ok(())
}
