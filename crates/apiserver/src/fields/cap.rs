//! Not too many owners: those that were silent for longest become one.

use std::collections::HashMap;

use super::entries::{Entry, Id, Operation};

/// Owners beside those that apply.
const MOST: usize = 10;
/// The name under which old changes are kept together.
const OLD: &str = "ancient-changes";

/// Merges the oldest owners of each version until there are few enough.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let is_updater = |entry: &&Entry| entry.operation == Operation::Update;
    let mut count = entries.iter().filter(is_updater).count();
    if count <= MOST {
        return;
    }
    let mut ages: Vec<((i64, String), String)> =
        entries.iter().filter(is_updater).map(|e| (e.age(), e.id().text())).collect();
    ages.sort();
    // The first owner of a version stays alone until there is a second to merge it with.
    let mut firsts: HashMap<String, String> = HashMap::new();
    for (_, id) in ages {
        if count <= MOST {
            return;
        }
        let Some(index) = entries.iter().position(|entry| entry.id().text() == id) else {
            continue;
        };
        let version = entries.get(index).map(|entry| entry.api_version.clone()).unwrap_or_default();
        let Some(first) = firsts.get(&version) else {
            firsts.insert(version, id);
            continue;
        };
        let bucket =
            Id { manager: OLD, operation: Operation::Update, api_version: &version, subresource: "" };
        if !entries.iter().any(|entry| entry.is(&bucket))
            && let Some(entry) = entries.iter_mut().find(|entry| entry.id().text() == *first)
        {
            entry.manager = OLD.to_owned();
            entry.subresource.clear();
        }
        let merged = entries.remove(index);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.is(&bucket)) {
            let set = merged.set().into_owned();
            entry.change(|all| all.union(set));
            entry.time = merged.time;
        }
        count -= 1;
    }
}
