//! Which old item of a list is the same as a new one.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::Value;

use super::node::{ListType, Node};

/// The old items of a list. Only lists with keys have such a thing; all others answer nothing.
pub(super) struct OldItems<'n, 'v> {
    keys: &'n [String],
    items: &'v [Value],
    /// By key, made when an item is not where it was: nearly never, and then it must not cost a search per item.
    index: OnceCell<HashMap<String, &'v Value>>,
}

impl<'n, 'v> OldItems<'n, 'v> {
    pub(super) fn new(list: &'n Node, old: Option<&'v Value>) -> Self {
        let (keys, items): (&[String], &[Value]) = match (&list.list, old) {
            (ListType::Map(keys), Some(Value::Array(items))) => (keys, items),
            _ => (&[], &[]),
        };
        Self { keys, items, index: OnceCell::new() }
    }

    /// The old item with the keys of `item`, which stands at `place` now.
    pub(super) fn get(&self, place: usize, item: &Value) -> Option<&'v Value> {
        if self.items.is_empty() {
            return None;
        }
        let same = |other: &&Value| self.keys.iter().all(|key| other.get(key) == item.get(key));
        if let Some(there) = self.items.get(place).filter(same) {
            return Some(there);
        }
        let index = self.index.get_or_init(|| {
            // Backwards, so that the first of several wins.
            self.items.iter().rev().map(|item| (self.identity(item), item)).collect()
        });
        index.get(&self.identity(item)).copied()
    }

    fn identity(&self, item: &Value) -> String {
        let part = |key: &String| item.get(key).map_or_else(String::new, Value::to_string);
        self.keys.iter().map(part).collect::<Vec<_>>().join("\n")
    }
}
