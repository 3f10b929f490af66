//! Objects that own each other in a circle. Deleted in the foreground, each would wait for the next for ever.

use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

use super::{Located, is_blocking, locate, references, text, waiting};
use crate::app::App;
use crate::failure::Failure;
use crate::object::meta_mut;
use crate::registry::{Catalog, Served};
use crate::store::{Key, Store, Stored};

/// Owners that are followed. A longer way is taken for a circle, as Kubernetes takes every object whose owner and whose
/// dependent both wait: with all ways followed to their end, ten thousand objects in a row would cost the square of that.
const LONGEST: usize = 200;

/// Lets the owners go that wait for this object while it waits for them. Only the references in the circle stop
/// blocking: an owner outside of it still goes last. The object that is looked at last closes the circle, so that no
/// circle is missed however its members came to be deleted.
pub(super) async fn unblock(
    app: &App,
    served: &Served,
    stored: &Stored,
    object: &Value,
) -> Result<(), Failure> {
    let catalog = app.catalog();
    let circular: Vec<Arc<Stored>> = blocked(&app.store, &catalog, &stored.key, object)
        .filter(|owner| depends_on(&app.store, &catalog, owner, &stored.uid))
        .collect();
    if circular.is_empty() {
        return Ok(());
    }
    app.edit(served, &stored.key, &stored.uid, |object| stop_blocking(object, &circular)).await
}

/// The owners that wait for an object.
fn blocked<'a>(
    store: &'a Store,
    catalog: &'a Catalog,
    key: &'a Key,
    object: &'a Value,
) -> impl Iterator<Item = Arc<Stored>> + 'a {
    let owners = references(object).iter().filter(|reference| is_blocking(reference));
    owners.filter_map(move |reference| match locate(store, catalog, key, reference) {
        Located::Found(owner) if waiting(&owner).is_some() => Some(owner),
        _ => None,
    })
}

/// Whether an object is the one of this uid, or has it among the owners that wait for it, or for each other.
fn depends_on(store: &Store, catalog: &Catalog, object: &Arc<Stored>, uid: &str) -> bool {
    let mut seen: HashSet<Box<str>> = HashSet::new();
    let mut left = vec![Arc::clone(object)];
    while let Some(next) = left.pop() {
        if &*next.uid == uid || seen.len() > LONGEST {
            return true;
        }
        if seen.insert(next.uid.clone())
            && let Some(value) = waiting(&next)
        {
            left.extend(blocked(store, catalog, &next.key, &value));
        }
    }
    false
}

fn stop_blocking(object: &mut Value, owners: &[Arc<Stored>]) -> bool {
    let list = meta_mut(object).and_then(|metadata| metadata.get_mut("ownerReferences"));
    let mut changed = false;
    for reference in list.and_then(Value::as_array_mut).into_iter().flatten() {
        if owners.iter().any(|owner| *owner.uid == *text(reference, "uid"))
            && let Some(block) = reference.get_mut("blockOwnerDeletion")
        {
            changed |= *block != Value::Bool(false);
            *block = Value::Bool(false);
        }
    }
    changed
}
