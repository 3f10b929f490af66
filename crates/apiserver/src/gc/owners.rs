//! Owner references: collecting what lost its owners, and finishing the deletions that wait for dependents.

mod cycles;

use serde_json::Value;
use std::sync::Arc;

use super::COLLECTOR;
use super::graph::Graph;
use crate::app::App;
use crate::failure::Failure;
use crate::object::{finalizers, meta_map, set_finalizers};
use crate::registry::{Catalog, Served};
use crate::rules::delete::{DeleteOptions, Propagation};
use crate::rules::{FOREGROUND, ORPHAN};
use crate::store::{Key, Store, Stored};

/// What an owner reference points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// An object that is there.
    Live,
    /// An object that waits for this one to go first.
    Waiting,
    /// Nothing, or an object that is not the one that was meant.
    Absent,
    /// Something that cannot be looked up; nobody may conclude from it that the owner is gone.
    Unknown,
}

fn references(object: &Value) -> &[Value] {
    meta_map(object)
        .and_then(|m| m.get("ownerReferences"))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What `locate` found.
enum Located {
    Found(Arc<Stored>),
    Absent,
    Unknown,
}

/// Looks an owner up where the reference says it is: same namespace, or cluster-scoped.
fn locate(store: &Store, catalog: &Catalog, dependent: &Key, reference: &Value) -> Located {
    let group = text(reference, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let Some(served) = catalog.by_kind(group, text(reference, "kind")) else {
        return Located::Unknown;
    };
    let namespace = match (served.namespaced, dependent.namespace()) {
        // A cluster-scoped object cannot have an owner in some namespace: there is no saying in which.
        (true, "") => return Located::Unknown,
        (true, namespace) => namespace,
        (false, _) => "",
    };
    let found = store.latest(&Key::new(&served.table, namespace, text(reference, "name")));
    let found = found.filter(|stored| &*stored.uid == text(reference, "uid"));
    found.map_or(Located::Absent, Located::Found)
}

fn owner(store: &Store, catalog: &Catalog, dependent: &Key, reference: &Value) -> Owner {
    match locate(store, catalog, dependent, reference) {
        Located::Found(stored) if waiting(&stored).is_some() => Owner::Waiting,
        Located::Found(_) => Owner::Live,
        Located::Absent => Owner::Absent,
        Located::Unknown => Owner::Unknown,
    }
}

/// The object, if it is being deleted and waits for its dependents.
fn waiting(stored: &Stored) -> Option<Value> {
    let object = stored.deleting.then(|| stored.value().ok()).flatten()?;
    finalizers(&object).contains(&FOREGROUND).then_some(object)
}

/// Deletes an object all of whose owners are gone, and drops the references to those that are gone otherwise. False
/// when an owner is of a kind that is not served (yet).
pub(super) async fn collect(
    app: &App,
    served: &Arc<Served>,
    stored: &Stored,
    graph: &Graph,
) -> Result<bool, Failure> {
    let object = stored.value().map_err(Failure::internal)?;
    let catalog = app.catalog();
    let owners: Vec<(&str, Owner)> = references(&object)
        .iter()
        .map(|reference| (text(reference, "uid"), owner(&app.store, &catalog, &stored.key, reference)))
        .collect();
    let has = |wanted: Owner| owners.iter().any(|(_, owner)| *owner == wanted);
    let resolved = !has(Owner::Unknown);
    if stored.deleting || (!has(Owner::Absent) && !has(Owner::Waiting)) {
        return Ok(resolved);
    }
    if has(Owner::Live) || has(Owner::Unknown) {
        let stale: Vec<&str> = owners
            .iter()
            .filter(|(_, o)| [Owner::Absent, Owner::Waiting].contains(o))
            .map(|(uid, _)| *uid)
            .collect();
        drop_references(app, served, stored, &stale).await?;
        return Ok(resolved);
    }
    // Its own dependents go first too, when the owner asked for that order.
    let has_dependents = graph.dependents(&stored.uid).next().is_some();
    let policy = (has(Owner::Waiting) && has_dependents).then_some(Propagation::Foreground);
    // Without an order its finalizers decide (an orphaning object stays orphaning).
    let options = DeleteOptions::of(&stored.uid, policy);
    ignore_races(app.delete_as(&COLLECTOR, served, &stored.key, &options).await)?;
    Ok(resolved)
}

/// Finishes a deletion that lets dependents go first, or lets them go.
pub(super) async fn finish(
    app: &App,
    served: &Arc<Served>,
    stored: &Stored,
    graph: &Graph,
) -> Result<(), Failure> {
    let object = stored.value().map_err(Failure::internal)?;
    let catalog = app.catalog();
    let dependents = || graph.dependents(&stored.uid).filter_map(|key| app.store.get(&key));
    if finalizers(&object).contains(&ORPHAN) {
        for dependent in dependents() {
            if let Some(kind) = catalog.by_table(dependent.key.table()) {
                drop_references(app, kind, &dependent, &[&stored.uid]).await?;
            }
        }
        drop_finalizer(app, served, stored, ORPHAN).await?;
    }
    if finalizers(&object).contains(&FOREGROUND) {
        cycles::unblock(app, served, stored, &object).await?;
        let mut blocked = false;
        for dependent in dependents() {
            blocked |= blocks(&dependent, stored)?;
            if let Some(kind) = catalog.by_table(dependent.key.table()) {
                Box::pin(collect(app, kind, &dependent, graph)).await?;
            }
        }
        if !blocked {
            drop_finalizer(app, served, stored, FOREGROUND).await?;
        }
    }
    Ok(())
}

/// Whether a dependent keeps its owner: it says so, and it really points at this owner (not at one of the same uid
/// in another namespace).
fn blocks(dependent: &Stored, owner: &Stored) -> Result<bool, Failure> {
    let same_place = owner.key.namespace().is_empty() || owner.key.namespace() == dependent.key.namespace();
    let object = dependent.value().map_err(Failure::internal)?;
    Ok(same_place && references(&object).iter().any(|r| text(r, "uid") == &*owner.uid && is_blocking(r)))
}

fn is_blocking(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

/// Whether a write left the references of an object as they were.
pub(super) fn same_references(before: &Stored, after: &Stored) -> bool {
    match (before.value(), after.value()) {
        (Ok(before), Ok(after)) => references(&before) == references(&after),
        _ => false,
    }
}

async fn drop_references(app: &App, served: &Served, stored: &Stored, uids: &[&str]) -> Result<(), Failure> {
    app.edit(served, &stored.key, &stored.uid, |object| {
        let Some(metadata) = crate::object::meta_mut(object) else {
            return false;
        };
        let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
            return false;
        };
        list.retain(|reference| !uids.contains(&text(reference, "uid")));
        if list.is_empty() {
            metadata.remove("ownerReferences");
        }
        true
    })
    .await
}

async fn drop_finalizer(app: &App, served: &Served, stored: &Stored, finalizer: &str) -> Result<(), Failure> {
    app.edit(served, &stored.key, &stored.uid, |object| {
        let kept = finalizers(object).into_iter().filter(|f| *f != finalizer).map(str::to_owned).collect();
        set_finalizers(object, kept);
        true
    })
    .await
}

/// The object is gone or another one meanwhile: there is nothing left to do.
pub(super) fn ignore_races<T>(result: Result<T, Failure>) -> Result<(), Failure> {
    match result {
        Err(failure) if [404, 409].contains(&failure.code()) => Ok(()),
        other => other.map(|_| ()),
    }
}
