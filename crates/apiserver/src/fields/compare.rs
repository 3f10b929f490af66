//! What a write changed.

use serde_json::Value;
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
    pub(super) fn taken(&self) -> Set {
        let mut taken = self.added.clone();
        taken.union(self.modified.clone());
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
        self.added.below.put(key.clone(), part.added);
        self.modified.below.put(key.clone(), part.modified);
        self.removed.below.put(key, part.removed);
    }

    /// Compares values that are not looked into.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !same(old, new),
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
    if let (Some(old), Some(new)) = (old, new)
        && old == new
    {
        return Ok(());
    }
    let (left, right) = (shape.atom(old), shape.atom(new));
    let is_leaf = match (old, new) {
        (_, None) => descend(left, old, new, diff)?,
        (None, _) => descend(right, old, new, diff)?,
        _ if left.same_kind(&right) => descend(right, old, new, diff)?,
        _ => {
            descend(left, old, new, diff)?;
            descend(right, old, new, diff)?
        }
    };
    if !is_leaf {
        diff.added.member |= old.is_none();
        diff.removed.member |= old.is_some() && new.is_none();
    }
    Ok(())
}

/// Compares two values as one type. True when they were not looked into.
fn descend(
    atom: Atom<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    diff: &mut Diff,
) -> Result<bool, String> {
    let is_leaf = match atom {
        Atom::Scalar(_) => true,
        Atom::List(list) => {
            let (left, right) = (list_of(old), list_of(new));
            let is_leaf = list.atomic() || (left.is_empty() && right.is_empty());
            if !is_leaf {
                items(list, left, right, diff)?;
            }
            is_leaf
        }
        Atom::Map(map) => {
            let is_empty = |value: Option<&Value>| {
                value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
            };
            let is_leaf = map.atomic() || (is_empty(old) && is_empty(new));
            if !is_leaf {
                members(map, old, new, diff)?;
            }
            is_leaf
        }
    };
    if is_leaf {
        diff.leaf(old, new);
    }
    Ok(is_leaf)
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn members(
    map: MapShape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    diff: &mut Diff,
) -> Result<(), String> {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
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
    for (name, left) in old.into_iter().flatten() {
        visit(name, Some(left), new.and_then(|map| map.get(name)))?;
    }
    for (name, right) in new.into_iter().flatten() {
        if old.is_none_or(|map| !map.contains_key(name)) {
            visit(name, None, Some(right))?;
        }
    }
    Ok(())
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
