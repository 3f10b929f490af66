//! What a create, update or patch does to the owners of an object.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::cap::cap;
use super::compare::Changes;
use super::entries::{self, Entry, Operation};
use super::reconcile::reconcile;
use super::set::Set;
use super::target::{Target, Writer};
use crate::object::{meta, meta_map, meta_mut};

/// Fields of every object that only the server writes: nobody owns them.
static SERVER_FIELDS: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Takes away the places that nobody owns.
pub(super) fn strip(set: &mut Set) {
    set.subtract(&SERVER_FIELDS);
}

pub(super) fn managed(object: &Value) -> Option<&Value> {
    meta_map(object)?.get("managedFields")
}

pub(super) fn set_managed(object: &mut Value, list: Option<Value>) {
    if let Some(metadata) = meta_mut(object) {
        match list {
            Some(list) => metadata.insert("managedFields".into(), list),
            None => metadata.remove("managedFields"),
        };
    }
}

/// Writes into a new version of an object who owns what in it. `new` has what the client sent there; the live object
/// is a blank one if there was none.
pub(crate) fn update(target: &Target<'_>, writer: &Writer<'_>, live: &Value, new: &mut Value) {
    let given = meta_mut(new).and_then(|metadata| metadata.remove("managedFields"));
    let owners = owners(writer, live, given);
    // Who owns what of an object nobody tracked from the start is not known.
    let tracked = meta(live, "uid").is_empty() || !owners.is_empty();
    if tracked {
        // Owners that cannot be worked out are none: the write itself goes on.
        let list = track(target, writer, live, new, owners).ok().flatten();
        set_managed(new, list);
    }
}

/// The owners a write starts from.
enum Owners {
    Stored(Option<Value>),
    Sent(Vec<Entry>),
}

impl Owners {
    fn is_empty(&self) -> bool {
        match self {
            Self::Stored(list) => list.as_ref().and_then(Value::as_array).is_none_or(Vec::is_empty),
            Self::Sent(entries) => entries.is_empty(),
        }
    }
}

/// Clients may write the owners themselves, but not by accident: only a list that makes sense replaces the stored one.
fn owners(writer: &Writer<'_>, live: &Value, given: Option<Value>) -> Owners {
    let stored = managed(live);
    match given {
        Some(list) if stored == Some(&list) => Owners::Stored(Some(list)),
        Some(list) if writer.subresource.is_empty() => {
            if entries::is_reset(&list) {
                return Owners::Sent(Vec::new());
            }
            match entries::sent(Some(list)) {
                Ok(entries) if !entries.is_empty() => Owners::Sent(entries),
                _ => Owners::Stored(stored.cloned()),
            }
        }
        _ => Owners::Stored(stored.cloned()),
    }
}

fn track(
    target: &Target<'_>,
    writer: &Writer<'_>,
    live: &Value,
    new: &Value,
    owners: Owners,
) -> Result<Option<Value>, String> {
    let changes = target.changes(live, new, target.api_version)?.unwrap_or_default();
    let mut entries = match owners {
        Owners::Stored(list) if changes.is_empty() && !target.stale => return Ok(list),
        Owners::Stored(list) => entries::stored(list).unwrap_or_default(),
        Owners::Sent(entries) => entries,
    };
    if entries.is_empty() && !meta(live, "uid").is_empty() {
        return Ok(None);
    }
    refresh(target, &mut entries);
    take_from_all(target, live, new, &changes, &mut entries)?;
    let mut own = changes.into_taken();
    strip(&mut own);
    if !own.is_empty() {
        let id = writer.id(Operation::Update, target.api_version);
        let now = Some(writer.now.to_owned());
        match entries.iter_mut().find(|entry| entry.is(&id)) {
            Some(entry) => {
                entry.change(|set| set.union(own));
                entry.time = now;
            }
            None => entries.push(Entry::new(&id, now, own)),
        }
    }
    cap(&mut entries);
    entries.retain(|entry| !entry.is_empty());
    Ok(entries::encode(entries))
}

/// Brings the sets of owners up to the types as they are now.
pub(super) fn refresh(target: &Target<'_>, entries: &mut [Entry]) {
    if !target.stale {
        return;
    }
    for entry in entries {
        if entry.api_version == target.api_version {
            entry.change(|set| *set = reconcile(target.own.shape, std::mem::take(set)));
        } else if let Some(version) = target.versions.version(&entry.api_version) {
            entry.change(|set| *set = reconcile(version.shape, std::mem::take(set)));
        }
    }
}

/// Takes what a write changed from everybody who had it. Owners of versions that are gone go.
fn take_from_all(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    changes: &Changes,
    entries: &mut Vec<Entry>,
) -> Result<(), String> {
    let mut others = OtherVersions::default();
    let mut kept = Vec::with_capacity(entries.len() + 1);
    for mut entry in std::mem::take(entries) {
        if entry.api_version == target.api_version {
            take(&mut entry, changes);
        } else if let Some(changes) = others.changes(target, live, new, &entry.api_version)? {
            take(&mut entry, changes);
        } else {
            continue;
        }
        kept.push(entry);
    }
    *entries = kept;
    Ok(())
}

/// What one write changed as other versions see it, each worked out once.
#[derive(Default)]
pub(super) struct OtherVersions {
    known: BTreeMap<String, Option<Changes>>,
}

impl OtherVersions {
    pub(super) fn changes(
        &mut self,
        target: &Target<'_>,
        old: &Value,
        new: &Value,
        api_version: &str,
    ) -> Result<Option<&Changes>, String> {
        if !self.known.contains_key(api_version) {
            self.known.insert(api_version.to_owned(), target.changes(old, new, api_version)?);
        }
        Ok(self.known.get(api_version).and_then(Option::as_ref))
    }
}

pub(super) fn take(entry: &mut Entry, changes: &Changes) {
    let parts = [&changes.added, &changes.modified, &changes.removed];
    if parts.iter().any(|part| entry.has_any(part)) {
        entry.change(|set| parts.iter().for_each(|part| set.subtract(part)));
    }
}

/// Keeps the times of a write that in the end changed nothing else, so that there is nothing to write.
pub(crate) fn forget_times(old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (managed(old), managed(new)) else {
        return;
    };
    if before == after || !equal_but_times(before, after) {
        return;
    }
    let (Some(left), Some(right)) = (old.as_object(), new.as_object()) else {
        return;
    };
    let rest = |map: &Map<String, Value>, other: &Map<String, Value>, skip: &str| {
        map.len() == other.len() && map.iter().all(|(k, v)| k == skip || other.get(k) == Some(v))
    };
    let equal = rest(left, right, "metadata")
        && meta_map(old).zip(meta_map(new)).is_some_and(|(old, new)| rest(old, new, "managedFields"));
    if equal {
        let list = before.clone();
        set_managed(new, Some(list));
    }
}

fn equal_but_times(a: &Value, b: &Value) -> bool {
    let lists = a.as_array().zip(b.as_array());
    lists.is_some_and(|(a, b)| {
        let equal = |x: &Value, y: &Value| {
            let strip = |entry: &Value| {
                let mut entry = entry.as_object().cloned().unwrap_or_default();
                entry.remove("time");
                entry
            };
            strip(x) == strip(y)
        };
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| equal(x, y))
    })
}
