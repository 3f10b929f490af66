//! How large the values are that a rule works with: by the schema when a definition is written, by the object itself
//! when the rule runs.

use std::sync::Arc;

use serde_json::Value;

use super::format::Format;
use super::node::{Kind, Node};

/// The largest request of a real server, in bytes: nothing in it is larger.
const REQUEST: u64 = 3 << 20;
/// What keys of maps are taken for, of which schemas say nothing.
const KEY: u64 = 253;
/// Values that are looked at where a path leads to many. Evenly chosen: what they have in common is what counts.
const SAMPLES: usize = 1024;
/// How far a value is counted.
const WEIGHT: u64 = 10_000_000;

/// The value of an expression, as far as its size is known.
#[derive(Clone, Debug)]
pub(super) enum Size<'a> {
    /// Anything that fits the schema.
    Fits(&'a Node),
    /// Some of the values that it has in turn.
    Is(Arc<[&'a Value]>),
    /// Something that the rule made: so many items, or bytes, and what an item is.
    Made(u64, Option<Arc<Self>>),
}

impl<'a> Size<'a> {
    /// A number, a truth value, or something of which nothing is known.
    pub(super) const SMALL: Self = Self::Made(0, None);

    pub(super) fn of(value: &'a Value) -> Self {
        Self::Is(Arc::new([value]))
    }

    /// Items of a list, entries of a map, bytes of a text.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Fits(node) => longest(node),
            Self::Is(values) => values.iter().map(|value| length(value)).max().unwrap_or(0),
            Self::Made(length, _) => *length,
        }
    }

    /// Whether it is a text, if that can be told.
    pub(super) fn is_text(&self) -> bool {
        match self {
            Self::Fits(node) => node.kind == Some(Kind::String),
            Self::Is(values) => values.iter().any(|value| value.is_string()),
            Self::Made(length, item) => *length > 0 && item.is_none(),
        }
    }

    /// How many values it consists of. Only of values that are there; the interpreter copies them.
    pub(super) fn weight(&self) -> u64 {
        match self {
            Self::Fits(_) => 1,
            Self::Is(values) => values.iter().map(|value| weight(value)).max().unwrap_or(1),
            Self::Made(length, item) => item.as_ref().map_or(1, |item| length.saturating_mul(item.weight())),
        }
    }

    pub(super) fn field(&self, escaped: &str) -> Self {
        let name = unescaped(escaped);
        match self {
            Self::Fits(node) => node.child(&name).map_or(Self::SMALL, Self::Fits),
            Self::Is(values) => some(values.iter().copied().filter_map(|value| value.get(&*name))),
            Self::Made(..) => Self::SMALL,
        }
    }

    /// What a list or a map holds.
    pub(super) fn item(&self) -> Self {
        match self {
            Self::Fits(node) => {
                let inside = node.items.as_deref().or_else(|| node.additional.schema());
                inside.map_or(Self::SMALL, Self::Fits)
            }
            Self::Is(values) => some(values.iter().copied().flat_map(|value| match value {
                Value::Array(list) => list.iter().collect::<Vec<_>>(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            })),
            Self::Made(_, item) => item.as_deref().cloned().unwrap_or(Self::SMALL),
        }
    }

    /// What a loop with one variable goes through: the items of a list, the keys of a map.
    pub(super) fn visited(&self) -> Self {
        match self {
            Self::Fits(node) if node.items.is_none() => Self::Made(KEY, None),
            Self::Is(values) if values.iter().any(|value| value.is_object()) => {
                let keys = values.iter().filter_map(|value| value.as_object()).flat_map(|map| map.keys());
                Self::Made(keys.map(|key| key.len() as u64).max().unwrap_or(0), None)
            }
            _ => self.item(),
        }
    }
}

/// Of many values some, in their order.
fn some<'a>(values: impl Iterator<Item = &'a Value>) -> Size<'a> {
    let all: Vec<&Value> = values.collect();
    let step = all.len().div_ceil(SAMPLES).max(1);
    Size::Is(all.into_iter().step_by(step).collect())
}

fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.len() as u64,
        Value::Object(map) => map.len() as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn weight(value: &Value) -> u64 {
    fn count(value: &Value, so_far: &mut u64) {
        *so_far += 1;
        if *so_far > WEIGHT {
            return;
        }
        match value {
            Value::Array(list) => list.iter().for_each(|item| count(item, so_far)),
            Value::Object(map) => map.values().for_each(|item| count(item, so_far)),
            Value::String(text) => *so_far += text.len() as u64 / 64,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut counted = 0;
    count(value, &mut counted);
    counted
}

/// The name of a property behind the name that rules have for it.
fn unescaped(name: &str) -> String {
    if !name.contains("__") {
        return name.to_owned();
    }
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| super::celvalue::escape(word) == name) {
        return word.to_owned();
    }
    name.replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace("__underscores__", "__")
}

/// The most a value that fits can have, in the units of [`Size::len`].
fn longest(node: &Node) -> u64 {
    let checks = node.checks.as_deref();
    match node.kind {
        Some(Kind::String) => {
            let format = checks.and_then(|checks| checks.format.as_ref()).map(|(_, format)| *format);
            let given = checks.and_then(|checks| checks.max_length);
            let listed = checks.map(|checks| checks.enumeration.as_slice()).unwrap_or_default();
            match (format, given) {
                (Some(Format::Duration | Format::DateTime), _) => 32,
                (Some(Format::Date), _) => 12,
                (Some(Format::Byte), Some(given)) => given,
                // A character has up to four bytes.
                (_, Some(given)) => given.saturating_mul(4),
                (_, None) if !listed.is_empty() => listed.iter().map(length).max().unwrap_or(0),
                (_, None) => REQUEST - 2,
            }
        }
        Some(Kind::Array) => {
            let most = |items: &Node| (REQUEST - 2) / (shortest(items) + 1);
            let given = checks.and_then(|checks| checks.max_items);
            given.unwrap_or_else(|| node.items.as_deref().map_or(0, most))
        }
        Some(Kind::Object) => {
            let most = |values: &Node| (REQUEST - 2) / (shortest(values) + 6);
            let given = checks.and_then(|checks| checks.max_properties);
            node.additional.schema().map_or(0, |values| given.unwrap_or_else(|| most(values)))
        }
        Some(Kind::Integer | Kind::Number | Kind::Boolean) | None => 0,
    }
}

/// The fewest bytes that a value takes in a request.
fn shortest(node: &Node) -> u64 {
    match node.kind {
        Some(Kind::String) => {
            let listed = node.checks.iter().flat_map(|checks| &checks.enumeration);
            let format = node.checks.as_ref().and_then(|checks| checks.format.as_ref());
            let plain = match format.map(|(_, format)| *format) {
                Some(Format::Duration) => 4,
                Some(Format::Date) => 12,
                Some(Format::DateTime) => 22,
                _ => 2,
            };
            listed.map(|value| length(value) + 2).min().unwrap_or(plain)
        }
        Some(Kind::Object) if node.additional.schema().is_none() => {
            let required = node.checks.iter().flat_map(|checks| &checks.required);
            let known = required.filter_map(|name| Some((name, node.properties.get(name)?)));
            let given = known.filter(|(_, property)| property.default.is_none());
            given.map(|(name, property)| name.len() as u64 + shortest(property) + 4).sum::<u64>() + 2
        }
        Some(Kind::Array | Kind::Object) => 2,
        Some(Kind::Boolean) => 4,
        Some(Kind::Integer | Kind::Number) | None => 1,
    }
}

/// How often a rule can run at a place of which nothing says how often it is there.
pub(super) fn most_places(node: &Node) -> u64 {
    REQUEST / (shortest(node) + 1)
}
