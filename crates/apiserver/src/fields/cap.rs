//! Not too many owners: those that were silent for longest become one.

use std::collections::HashMap;

use super::entries::{Entry, Id, Operation};
use super::set::Set;

/// Owners beside those that apply.
const MOST: usize = 10;
/// The name under which old changes are kept together.
const OLD: &str = "ancient-changes";

/// Merges the oldest owners of each version until there are few enough.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let is_updater = |entry: &Entry| entry.operation == Operation::Update;
    let mut count = entries.iter().filter(|entry| is_updater(entry)).count();
    if count <= MOST {
        return;
    }
    let mut ages: Vec<_> =
        entries.iter().enumerate().filter(|(_, e)| is_updater(e)).map(|(at, e)| (e.age(), at)).collect();
    ages.sort();
    let mut slots: Vec<Option<Entry>> = std::mem::take(entries).into_iter().map(Some).collect();
    let mut versions: HashMap<String, Bucket> = HashMap::new();
    for (at, entry) in slots.iter().enumerate() {
        if let Some(entry) = entry.as_ref().filter(|entry| entry.is(&bucket_of(&entry.api_version))) {
            versions.entry(entry.api_version.clone()).or_default().place = Some(at);
        }
    }
    for (_, at) in ages {
        if count <= MOST {
            break;
        }
        let Some(slot) = slots.get_mut(at) else { continue };
        let version = slot.as_ref().map(|entry| entry.api_version.clone()).unwrap_or_default();
        let bucket = versions.entry(version).or_default();
        // The first owner of a version stays alone until there is a second to merge it with.
        let Some(first) = bucket.first else {
            bucket.first = Some(at);
            continue;
        };
        if *bucket.place.get_or_insert(first) == at {
            continue;
        }
        if let Some(merged) = slot.take() {
            bucket.sets.push(merged.set().into_owned());
            bucket.time = merged.time;
        }
        count -= 1;
    }
    for bucket in versions.into_values() {
        bucket.fill(&mut slots);
    }
    entries.extend(slots.into_iter().flatten());
}

fn bucket_of(version: &str) -> Id<'_> {
    Id { manager: OLD, operation: Operation::Update, api_version: version, subresource: "" }
}

/// What becomes of the old owners of one version.
#[derive(Default)]
struct Bucket {
    /// The oldest of them.
    first: Option<usize>,
    /// The one that takes over what the others had.
    place: Option<usize>,
    sets: Vec<Set>,
    /// When the last of the others wrote.
    time: Option<String>,
}

impl Bucket {
    fn fill(self, slots: &mut [Option<Entry>]) {
        let entry = self.place.and_then(|at| slots.get_mut(at)).and_then(Option::as_mut);
        let (Some(entry), false) = (entry, self.sets.is_empty()) else { return };
        OLD.clone_into(&mut entry.manager);
        entry.subresource.clear();
        entry.change(|all| all.union(Set::union_of(self.sets)));
        entry.time = self.time;
    }
}
