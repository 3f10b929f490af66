//! In which order a merged list ends up.
//!
//! Strategic merge keeps two orders at once: the items the patch names stand in the patch's order, the others in the
//! stored order, and where the stored list says how one of each kind relate, it decides. An item that is new stands
//! before those, which is why `kubectl patch` puts an added container first.

use std::collections::HashMap;

use serde_json::Value;

/// How two items of a list are recognised as the same one.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// By the value of a field.
    Key(&'static str),
    /// By being equal.
    Whole,
}

impl Identity {
    /// A text that is equal for the same item, so that finding one takes a hash and no scan: patches come from
    /// outside, and a scan per item would make a large one quadratic. Nothing when the item has no identity.
    pub(super) fn of(self, item: &Value) -> Option<String> {
        match self {
            Self::Key(key) => item.get(key).filter(|value| !value.is_null()).map(Value::to_string),
            Self::Whole => Some(item.to_string()),
        }
    }

    /// Where each item of a list first stands.
    pub(super) fn index(self, list: &[Value]) -> HashMap<String, usize> {
        let mut index = HashMap::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            if let Some(id) = self.of(item) {
                index.entry(id).or_insert(at);
            }
        }
        index
    }
}

/// Orders `merged`: items named in `wanted` in that order, the rest as in `stored`, interleaved by `stored`.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    stored: &[Value],
    identity: Identity,
) -> Vec<Value> {
    let (wanted, stored) = (identity.index(wanted), identity.index(stored));
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let id = identity.of(&item).unwrap_or_default();
        let place = stored.get(&id).copied();
        match wanted.get(&id).copied() {
            Some(order) => named.push((order, place, item)),
            None => others.push((place, item)),
        }
    }
    named.sort_by_key(|(order, _, _)| *order);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in named {
        while let Some((_, other)) = others.next_if(|(other, _)| match (other, place) {
            (Some(other), Some(place)) => *other < place,
            _ => false,
        }) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    out
}
