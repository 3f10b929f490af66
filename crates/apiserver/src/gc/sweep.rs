//! Emptying namespaces and definitions that are being deleted, then letting them go.

use serde_json::{Value, json};
use std::sync::Arc;

use super::COLLECTOR;
use super::owners::ignore_races;
use super::remaining::{Remaining, is_told};
use crate::app::App;
use crate::crd;
use crate::failure::Failure;
use crate::object::{finalizers, set_at, set_finalizers, time};
use crate::registry::Served;
use crate::rules::CRD_CLEANUP;
use crate::rules::delete::{DeleteOptions, Propagation};
use crate::store::{Range, Stored};

/// Goes on with the deletion of a namespace or definition; nothing for other objects. A namespace is told what keeps it
/// if it was not yet, or if `report` says so.
pub(super) async fn finish(
    app: &App,
    served: &Arc<Served>,
    stored: &Stored,
    report: bool,
) -> Result<(), Failure> {
    if served.is_core("namespaces") {
        namespace(app, served, stored, report).await
    } else if served.is_crd() {
        definition(app, served, stored).await
    } else {
        Ok(())
    }
}

async fn namespace(app: &App, served: &Arc<Served>, stored: &Stored, report: bool) -> Result<(), Failure> {
    let object = stored.value().map_err(Failure::internal)?;
    let prefix = format!("{}/", stored.key.name());
    let range = Range { prefix: &prefix, after: None, limit: usize::MAX };
    let catalog = app.catalog();
    let kinds: Vec<_> = catalog.all().into_iter().filter(|kind| kind.namespaced).collect();
    let (mut remaining, mut left, mut failed) = (Remaining::default(), 0, None);
    for kind in &kinds {
        // A kind that cannot be deleted keeps no other.
        match empty(app, kind, &kind.table, &prefix).await {
            Ok(count) => left += count,
            Err(failure) => {
                remaining.fail(&failure);
                failed = Some(failure);
            }
        }
    }
    let over = left == 0 && failed.is_none();
    if over || report || failed.is_some() || !is_told(&object) {
        for kind in &kinds {
            remaining.add(kind, &app.store.page(&kind.table, range).items);
        }
        let now = time(app.now());
        let tell = |namespace: &mut Value| remaining.tell(namespace, &now);
        app.edit_status(served, &stored.key, &stored.uid, tell).await?;
    }
    match failed {
        Some(failure) => Err(failure),
        None if over => finalize(app, served, stored).await,
        None => Ok(()),
    }
}

async fn finalize(app: &App, served: &Arc<Served>, stored: &Stored) -> Result<(), Failure> {
    app.edit(served, &stored.key, &stored.uid, |object| {
        let finalizers =
            object.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let kept: Vec<Value> = finalizers.into_iter().filter(|f| f != "kubernetes").collect();
        set_at(object, &["spec".into(), "finalizers".into()], json!(kept))
    })
    .await
}

async fn definition(app: &App, served: &Arc<Served>, stored: &Stored) -> Result<(), Failure> {
    let object = stored.value().map_err(Failure::internal)?;
    if !finalizers(&object).contains(&CRD_CLEANUP) {
        return Ok(());
    }
    let table = crd::table(&object);
    if let Some(kind) = crd::storage(&object)
        && empty(app, &kind, &table, "").await? > 0
    {
        return Ok(());
    }
    app.edit(served, &stored.key, &stored.uid, |object| {
        let kept = finalizers(object).into_iter().filter(|f| *f != CRD_CLEANUP).map(str::to_owned).collect();
        set_finalizers(object, kept);
        true
    })
    .await
}

/// Deletes everything in a range and says how many objects are still there, kept by finalizers or a node.
async fn empty(app: &App, kind: &Served, table: &str, prefix: &str) -> Result<usize, Failure> {
    let range = Range { prefix, after: None, limit: usize::MAX };
    for stored in app.store.page(table, range).items.iter().filter(|stored| !stored.deleting) {
        let options = DeleteOptions::of(&stored.uid, Some(Propagation::Background));
        ignore_races(app.delete_as(&COLLECTOR, kind, &stored.key, &options).await)?;
    }
    Ok(app.store.count(table, range))
}
