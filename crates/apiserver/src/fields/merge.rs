//! An applied configuration put over the object that is there. Nothing is removed by it.

use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet, VecDeque};

use super::shape::{Atom, ListShape, MapShape, Shape};

/// Merges a configuration into an object. Both fit the shape; the object may have duplicates in its lists.
pub(super) fn merge(shape: Shape<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    place(shape, Some(live), Some(config)).map(|merged| merged.unwrap_or(Value::Null))
}

fn place(shape: Shape<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, String> {
    // What the configuration does not mention stays as it is.
    let Some(config) = config else {
        return Ok(live.cloned());
    };
    match shape.atom(Some(config)) {
        Atom::Scalar(_) => Ok(Some(config.clone())),
        Atom::List(list) => {
            let left = live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let right = config.as_array().map(Vec::as_slice).unwrap_or_default();
            if list.atomic() || (left.is_empty() && right.is_empty()) {
                return Ok(Some(config.clone()));
            }
            let merged = Merger::new(list, left, right)?.run()?;
            Ok((!merged.is_empty()).then_some(Value::Array(merged)))
        }
        Atom::Map(map) => {
            let left = live.and_then(Value::as_object).filter(|map| !map.is_empty());
            let right = config.as_object().filter(|map| !map.is_empty());
            if map.atomic() || (left.is_none() && right.is_none()) {
                return Ok(Some(config.clone()));
            }
            members(map, left, right).map(Some)
        }
    }
}

fn members(
    map: MapShape<'_>,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
) -> Result<Value, String> {
    let mut merged = live.cloned().unwrap_or_default();
    for (name, value) in config.into_iter().flatten() {
        let shape = map.member(name).0.unwrap_or(Shape::Deduced);
        if let Some(value) = place(shape, live.and_then(|map| map.get(name)), Some(value))? {
            merged.insert(name.clone(), value);
        }
    }
    Ok(Value::Object(merged))
}

/// The items of two lists on their way into one: in the order of the configuration where it names them, and between
/// those in the order they had.
struct Merger<'s, 'v> {
    list: ListShape<'s>,
    live: Vec<(String, &'v Value)>,
    config: Vec<(String, &'v Value)>,
    /// Items by their step. Of duplicates none is merged with.
    live_items: HashMap<String, Option<&'v Value>>,
    config_items: HashMap<String, &'v Value>,
}

impl<'s, 'v> Merger<'s, 'v> {
    fn new(list: ListShape<'s>, live: &'v [Value], config: &'v [Value]) -> Result<Self, String> {
        let index = |items: &'v [Value]| -> Result<Vec<(String, &'v Value)>, String> {
            items.iter().map(|item| Ok((list.step(item)?, item))).collect()
        };
        let (live, config) = (index(live)?, index(config)?);
        let mut live_items: HashMap<String, Option<&Value>> = HashMap::new();
        for (key, item) in &live {
            live_items.entry(key.clone()).and_modify(|twin| *twin = None).or_insert(Some(item));
        }
        let config_items = config.iter().map(|(key, item)| (key.clone(), *item)).collect();
        Ok(Self { list, live, config, live_items, config_items })
    }

    fn both(&self, key: &str) -> Result<Option<Value>, String> {
        let live = self.live_items.get(key).copied().flatten();
        place(self.list.item(), live, self.config_items.get(key).copied())
    }

    fn run(&self) -> Result<Vec<Value>, String> {
        let mut shared: VecDeque<&str> = self
            .config
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|k| self.live_items.contains_key(*k))
            .collect();
        let mut next_shared = shared.pop_front();
        let mut done: HashSet<&str> = HashSet::new();
        let mut out = Vec::with_capacity(self.live.len().max(self.config.len()));
        let (mut left, mut right) = (0, 0);
        while left < self.live.len() || right < self.config.len() {
            if let (Some((key, _)), Some((twin, _))) = (self.live.get(left), self.config.get(right)) {
                if key == twin {
                    done.insert(key);
                    out.extend(self.both(key)?);
                    (left, right) = (left + 1, right + 1);
                    next_shared = shared.pop_front();
                    continue;
                }
                let is_shared = self.config_items.contains_key(key);
                if is_shared && next_shared.is_some_and(|next| next != key) {
                    // Its turn comes where the configuration has it.
                    left += 1;
                    continue;
                }
            }
            if let Some((key, item)) = self.live.get(left) {
                if !self.config_items.contains_key(key) {
                    out.push((*item).clone());
                    left += 1;
                    continue;
                }
                left += usize::from(done.contains(key.as_str()));
            }
            if let Some((key, _)) = self.config.get(right) {
                done.insert(key);
                out.extend(self.both(key)?);
                right += 1;
                if next_shared == Some(key) {
                    next_shared = shared.pop_front();
                }
            }
        }
        Ok(out)
    }
}
