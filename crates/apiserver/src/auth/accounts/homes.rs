//! What every namespace has for its pods: the account `default`, and the certificate to check this server with.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

use super::Accounts;
use crate::app::App;
use crate::auth::Identity;
use crate::builtin::NAMESPACE_TABLE;
use crate::controllers::{Follower, request};
use crate::object::{meta, set_meta};
use crate::store::{Event, EventKind, Key, Range};

const ACCOUNTS: &str = "/serviceaccounts";
const MAPS: &str = "/configmaps";
const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";
/// When a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the first namespaces have from the start.
pub(crate) fn seed(accounts: &Accounts, namespaces: &[String], now: &str) -> Vec<(Key, Value)> {
    let mut objects = Vec::new();
    for namespace in namespaces {
        let own = [(ACCOUNTS, Some(account())), (MAPS, root_ca(accounts))];
        for (table, mut object) in own.into_iter().filter_map(|(table, object)| Some((table, object?))) {
            for (field, value) in [
                ("namespace", namespace.as_str()),
                ("uid", &uuid::Uuid::new_v4().to_string()),
                ("creationTimestamp", now),
            ] {
                set_meta(&mut object, field, value);
            }
            objects.push((Key::new(&table.into(), namespace, meta(&object, "name")), object));
        }
    }
    objects
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
}

fn root_ca(accounts: &Accounts) -> Option<Value> {
    let metadata = json!({"name": ROOT_CA, "annotations": {"kubernetes.io/description": DESCRIPTION}});
    (!accounts.root_ca.is_empty()).then(|| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": accounts.root_ca},
        })
    })
}

/// Keeps every namespace furnished until the server stops.
pub(crate) async fn run(app: &App, accounts: &Accounts) {
    let mut followers = [NAMESPACE_TABLE, ACCOUNTS, MAPS].map(|table| Follower::new(app, table));
    let mut waiting = all(app);
    loop {
        let mut failed = BTreeSet::new();
        for namespace in std::mem::take(&mut waiting) {
            if let Err(error) = furnish(app, accounts, &namespace).await {
                tracing::warn!(%namespace, %error, "a namespace could not be furnished, will be tried again");
                failed.insert(namespace);
            }
        }
        let retry = !failed.is_empty();
        waiting.append(&mut failed);
        let [namespaces, own, maps] = &mut followers;
        tokio::select! {
            true = namespaces.changed() => {}
            true = own.changed() => {}
            true = maps.changed() => {}
            () = tokio::time::sleep(RETRY), if retry => {}
            else => return,
        }
        for follower in &mut followers {
            match follower.news(app) {
                Some(events) => waiting.extend(events.iter().filter_map(|event| home(event))),
                None => waiting = all(app),
            }
        }
    }
}

fn all(app: &App) -> BTreeSet<String> {
    let page = app.store.page(NAMESPACE_TABLE, Range { prefix: "", after: None, limit: usize::MAX });
    page.items.iter().map(|stored| stored.key.name().to_owned()).collect()
}

/// The namespace that may lack something after an event.
fn home(event: &Event) -> Option<String> {
    let key = &event.object.key;
    let gone = event.kind == EventKind::Deleted;
    match &**key.table() {
        NAMESPACE_TABLE => (!gone).then(|| key.name().to_owned()),
        ACCOUNTS => (gone && key.name() == ACCOUNT).then(|| key.namespace().to_owned()),
        _ => (key.name() == ROOT_CA).then(|| key.namespace().to_owned()),
    }
}

async fn furnish(app: &App, accounts: &Accounts, namespace: &str) -> Result<(), String> {
    if app.store.get(&app.namespace_key(namespace)).is_none_or(|stored| stored.deleting) {
        return Ok(());
    }
    let user = Identity::internal("system:kube-controller-manager");
    let at = |table: &str, name: &str| app.store.get(&Key::new(&table.into(), namespace, name));
    let base = format!("/api/v1/namespaces/{namespace}");
    if at(ACCOUNTS, ACCOUNT).is_none() {
        settled(request(app, &user, "POST", &format!("{base}/serviceaccounts"), &account()).await)?;
    }
    let Some(map) = root_ca(accounts) else { return Ok(()) };
    match at(MAPS, ROOT_CA).and_then(|stored| stored.value().ok()) {
        None => settled(request(app, &user, "POST", &format!("{base}/configmaps"), &map).await),
        Some(found) if found.get("data") != map.get("data") => {
            settled(request(app, &user, "PUT", &format!("{base}/configmaps/{ROOT_CA}"), &map).await)
        }
        Some(_) => Ok(()),
    }
}

/// Somebody else was quicker, or the namespace is going: there is nothing left to do.
fn settled(result: Result<Value, (u16, String)>) -> Result<(), String> {
    match result {
        Ok(_) | Err((403 | 404 | 409, _)) => Ok(()),
        Err((_, why)) => Err(why),
    }
}
