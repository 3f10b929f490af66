//! Server-side apply: a configuration becomes part of an object, and what it no longer says goes.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::collect::collect;
use super::compare::same;
use super::entries::{self, Entry, Id, Operation};
use super::lastapplied;
use super::merge::merge;
use super::remove::{remove, with_fields};
use super::set::Set;
use super::shape::Shape;
use super::target::{Target, Writer};
use super::update::{OtherVersions, managed, refresh, set_managed, strip, take, update};
use super::validate::validate;
use crate::object::meta;

/// The owner of everything that was there before anybody applied.
const BEFORE: &str = "before-first-apply";

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplyError {
    /// The configuration is not one.
    Bad(String),
    /// It does not fit, or nothing can be made of the object that is there.
    Failed(String),
    /// Others own fields it wants to change.
    Conflicts(Vec<Conflict>),
}

impl From<String> for ApplyError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A place that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The owner as messages name it.
    pub(crate) with: String,
    pub(crate) path: String,
}

/// Applies a configuration to an object, or to a blank one. Returns the object with its owners.
pub(crate) fn apply(
    target: &Target<'_>,
    writer: &Writer<'_>,
    live: &Value,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let entries = entries::stored(managed(live).cloned())
        .map_err(|why| ApplyError::Failed(format!("failed to decode managed fields: {why}")))?;
    let mut live = Cow::Borrowed(live);
    let entries = if entries.is_empty() {
        let mut old = live.into_owned();
        let first = Writer { manager: BEFORE, ..*writer };
        update(target, &first, &target.versions.blank(), &mut old);
        let entries = entries::stored(managed(&old).cloned())?;
        set_managed(&mut old, None);
        live = Cow::Owned(old);
        entries
    } else {
        entries
    };
    // Only this owner gets a second try.
    let again = (writer.manager == lastapplied::MANAGER).then(|| entries.clone());
    let mut applied = match (once(target, writer, &live, config, entries, force), again) {
        (Err(Refused::Conflicts(conflicts)), Some(entries)) => {
            let allowed = lastapplied::owned(target, &live).unwrap_or_default();
            let left = beyond(conflicts, &allowed);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            once(target, writer, &live, config, entries, true).map_err(Refused::into_error)?
        }
        (other, _) => other.map_err(Refused::into_error)?,
    };
    if writer.manager == lastapplied::MANAGER {
        lastapplied::refresh(&mut applied, config);
    }
    Ok(applied)
}

enum Refused {
    Error(ApplyError),
    /// The owner, and the places.
    Conflicts(Vec<(String, String, Set)>),
}

impl Refused {
    fn into_error(self) -> ApplyError {
        match self {
            Self::Error(error) => error,
            Self::Conflicts(conflicts) => ApplyError::Conflicts(beyond(conflicts, &Set::new())),
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Error(ApplyError::Failed(why))
    }
}

/// The conflicts about places that are not in a set, by the name of the owner.
fn beyond(mut conflicts: Vec<(String, String, Set)>, allowed: &Set) -> Vec<Conflict> {
    conflicts.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut left = Vec::new();
    for (_, with, mut places) in conflicts {
        places.subtract(allowed);
        left.extend(places.paths().into_iter().map(|path| Conflict { with: with.clone(), path }));
    }
    left
}

/// How messages name an object.
fn name(target: &Target<'_>, object: &Value) -> String {
    let group_version = if target.api_version.contains('/') {
        target.api_version.to_owned()
    } else {
        format!("/{}", target.api_version)
    };
    let (namespace, name) = (meta(object, "namespace"), meta(object, "name"));
    format!("{namespace}/{name}; {group_version}, Kind={}", target.kind)
}

fn once(
    target: &Target<'_>,
    writer: &Writer<'_>,
    live: &Value,
    config: &Value,
    mut entries: Vec<Entry>,
    force: bool,
) -> Result<Value, Refused> {
    if managed(config).is_some_and(|list| !list.is_null()) {
        return Err(Refused::Error(ApplyError::Bad("metadata.managedFields must be nil".into())));
    }
    let shape = target.own.shape;
    validate(shape, config)
        .map_err(|why| format!("failed to create typed patch object ({}): {why}", name(target, config)))?;
    refresh(target, &mut entries);
    let id = writer.id(Operation::Apply, target.api_version);
    let merged = merge(shape, live, config).map_err(|why| format!("failed to merge config: {why}"))?;
    let mut set = collect(shape, config).map_err(|why| format!("failed to get field set: {why}"))?;
    set.cut(target.own.reset);
    let set_before = |last: &Entry| {
        let mut gone = last.set().into_owned();
        gone.subtract(&set);
        !gone.is_empty() || last.api_version != target.api_version
    };
    let last = entries.iter().position(|entry| entry.is(&id)).map(|index| entries.remove(index));
    let time = last.as_ref().and_then(|entry| entry.time.clone());
    let less = last.filter(|last| !last.is_empty() && set_before(last));
    entries.push(Entry::new(&id, time, set));
    let mut object = match &less {
        Some(last) => prune(target, merged, &entries, last)?,
        None => merged,
    };
    claim(target, live, &object, &id, &mut entries, force)?;
    let changed = !same(live, &object);
    if let Some(own) = entries.iter_mut().find(|entry| entry.is(&id)) {
        own.change(strip);
        if changed {
            own.time = Some(writer.now.to_owned());
        }
    }
    entries.retain(|entry| !entry.is_empty());
    if !changed {
        object = live.clone();
    }
    set_managed(&mut object, entries::encode(entries));
    Ok(object)
}

/// Takes what a configuration changed from its owners, if that is allowed.
fn claim(
    target: &Target<'_>,
    live: &Value,
    object: &Value,
    own: &Id<'_>,
    entries: &mut Vec<Entry>,
    force: bool,
) -> Result<(), Refused> {
    let failed = |why: String| format!("failed to compare objects: {why}");
    let mut conflicts = Vec::new();
    let mut kept = Vec::with_capacity(entries.len());
    let mut versions = OtherVersions::default();
    for mut entry in std::mem::take(entries) {
        if !entry.is(own) {
            let changes = versions.changes(target, live, object, &entry.api_version).map_err(failed)?;
            let Some(changes) = changes else {
                continue;
            };
            if entry.has_any(&changes.added) || entry.has_any(&changes.modified) {
                let taken = changes.taken_of(&entry.set());
                conflicts.push((entry.id().text(), entry.id().show(), taken));
            }
            take(&mut entry, changes);
        }
        kept.push(entry);
    }
    *entries = kept;
    if force || conflicts.is_empty() { Ok(()) } else { Err(Refused::Conflicts(conflicts)) }
}

/// Removes what the owner applied last time and does not any more, unless somebody else owns it.
fn prune(target: &Target<'_>, merged: Value, entries: &[Entry], last: &Entry) -> Result<Value, String> {
    let Some(version) = Form::of(target, &last.api_version) else {
        return Ok(merged);
    };
    let merged = version.read(target, &merged);
    let last_set = with_fields(version.shape, &last.set());
    let pruned = remove(version.shape, &merged, &last_set);
    let pruned = add_back_owned(target, &version, &merged, pruned, entries)
        .map_err(|why| format!("failed to prune fields: failed add back owned items: {why}"))?;
    // What goes was applied by this owner; anything else that is missing now is given back.
    let mut gone = with_fields(version.shape, &collect(version.shape, &merged)?);
    gone.subtract(&with_fields(version.shape, &collect(version.shape, &pruned)?));
    let pruned = remove(version.shape, &merged, &gone.intersection(&last_set));
    Ok(version.write(target, pruned))
}

/// Gives back what somebody owns, in the words of each version in which somebody owns something.
fn add_back_owned(
    target: &Target<'_>,
    version: &Form<'_>,
    merged: &Value,
    pruned: Value,
    entries: &[Entry],
) -> Result<Value, String> {
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for entry in entries {
        owned.entry(&entry.api_version).or_default().union(entry.set().into_owned());
    }
    let first = owned.remove_entry(version.api_version);
    let mut pruned = pruned;
    for (api_version, owned) in first.into_iter().chain(owned) {
        let Some(form) = Form::of(target, api_version) else {
            continue;
        };
        let all = form.read_from(target, version, merged);
        let left = form.read_from(target, version, &pruned);
        let mut gone = with_fields(form.shape, &collect(form.shape, &all)?);
        gone.subtract(&with_fields(form.shape, &collect(form.shape, &left)?));
        gone.subtract(&with_fields(form.shape, &owned));
        pruned = version.read_from(target, &form, &remove(form.shape, &all, &gone));
    }
    Ok(pruned)
}

/// A version objects can be brought into.
struct Form<'a> {
    api_version: &'a str,
    shape: Shape<'a>,
    /// Whether it is the version that is written to.
    own: bool,
}

impl<'a> Form<'a> {
    fn of(target: &'a Target<'_>, api_version: &'a str) -> Option<Self> {
        if api_version == target.api_version {
            return Some(Self { api_version, shape: target.own.shape, own: true });
        }
        let version = target.versions.version(api_version)?;
        Some(Self { api_version, shape: version.shape, own: false })
    }

    /// An object of the version that is written to, in this one.
    fn read(&self, target: &Target<'_>, object: &Value) -> Value {
        if self.own { object.clone() } else { target.versions.convert(object, self.api_version) }
    }

    fn write(&self, target: &Target<'_>, object: Value) -> Value {
        if self.own { object } else { target.versions.convert_back(object) }
    }

    fn read_from(&self, target: &Target<'_>, from: &Form<'_>, object: &Value) -> Value {
        if self.api_version == from.api_version {
            return object.clone();
        }
        self.read(target, &from.write(target, object.clone()))
    }
}
