//! Claims and volumes that are in use stay: they are deleted when nobody uses them any more.

use serde_json::Value;
use std::sync::Arc;

use crate::app::App;
use crate::controllers::Follower;
use crate::failure::Failure;
use crate::object::{at, finalizers, set_finalizers};
use crate::registry::Served;
use crate::store::{Range, Stored};

const CLAIMS: &str = "/persistentvolumeclaims";
const VOLUMES: &str = "/persistentvolumes";
const PODS: &str = "/pods";

/// What keeps a new object of a kind from going while it is in use.
pub(crate) fn finalizer(served: &Served) -> Option<&'static str> {
    if served.is_core("persistentvolumeclaims") {
        Some("kubernetes.io/pvc-protection")
    } else if served.is_core("persistentvolumes") {
        Some("kubernetes.io/pv-protection")
    } else {
        None
    }
}

/// Puts the finalizer into a new object.
pub(crate) fn protect(served: &Served, object: &mut Value) {
    let Some(own) = finalizer(served) else { return };
    let mut all = finalizers(object).into_iter().map(str::to_owned).collect::<Vec<_>>();
    if all.iter().all(|known| known != own) {
        all.push(own.to_owned());
        set_finalizers(object, all);
    }
}

/// Lets go what nobody uses until the server stops.
pub(crate) async fn run(app: &App) {
    let mut followers = [CLAIMS, VOLUMES, PODS].map(|table| Follower::new(app, table));
    loop {
        for (table, plural) in [(CLAIMS, "persistentvolumeclaims"), (VOLUMES, "persistentvolumes")] {
            for stored in deleting(app, table) {
                if let Err(failure) = let_go(app, plural, &stored).await {
                    tracing::warn!(key = %stored.key, status = %failure.status(), "could not be let go");
                }
            }
        }
        let [claims, volumes, pods] = &mut followers;
        // Only those that wait for pods to go make pods interesting.
        let waits_for_pods = !deleting(app, CLAIMS).is_empty();
        tokio::select! {
            true = claims.changed() => {}
            true = volumes.changed() => {}
            true = pods.changed(), if waits_for_pods => {}
            else => return,
        }
    }
}

fn deleting(app: &App, table: &str) -> Vec<Arc<Stored>> {
    let all = app.store.page(table, Range { prefix: "", after: None, limit: usize::MAX }).items;
    all.into_iter().filter(|stored| stored.deleting).collect()
}

async fn let_go(app: &App, plural: &str, stored: &Stored) -> Result<(), Failure> {
    let catalog = app.catalog();
    let Some(served) = catalog.get("", "v1", plural) else { return Ok(()) };
    let Some(own) = finalizer(served) else { return Ok(()) };
    let object = stored.value().map_err(Failure::internal)?;
    if !finalizers(&object).contains(&own) || is_used(app, stored, &object) {
        return Ok(());
    }
    app.edit(served, &stored.key, &stored.uid, |object| {
        let left: Vec<String> =
            finalizers(object).into_iter().filter(|known| *known != own).map(str::to_owned).collect();
        set_finalizers(object, left);
        true
    })
    .await
}

/// A volume is used while it is bound, a claim while a pod that has a node names it.
fn is_used(app: &App, stored: &Stored, object: &Value) -> bool {
    if &**stored.key.table() == VOLUMES {
        return at(object, "status.phase").and_then(Value::as_str) == Some("Bound");
    }
    let (namespace, claim) = (stored.key.namespace(), stored.key.name());
    let prefix = format!("{namespace}/");
    let pods = app.store.page(PODS, Range { prefix: &prefix, after: None, limit: usize::MAX }).items;
    pods.iter().any(|pod| pod.value().is_ok_and(|pod| names(&pod, claim)))
}

fn names(pod: &Value, claim: &str) -> bool {
    let placed = at(pod, "spec.nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    let name = at(pod, "metadata.name").and_then(Value::as_str).unwrap_or_default();
    let volumes = at(pod, "spec.volumes").and_then(Value::as_array).into_iter().flatten();
    placed
        && volumes.into_iter().any(|volume| {
            let named = at(volume, "persistentVolumeClaim.claimName").and_then(Value::as_str);
            // A claim that comes with the pod is called after both.
            let own = volume.get("ephemeral").and(volume.get("name")).and_then(Value::as_str);
            named == Some(claim) || own.is_some_and(|own| format!("{name}-{own}") == claim)
        })
}
