//! Secrets of type `kubernetes.io/service-account-token`: they get a token that lasts as long as they do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

use super::claims::{Bound, Claims, Private};
use super::{Accounts, KeyError};
use crate::app::App;
use crate::controllers::Follower;
use crate::failure::Failure;
use crate::object::{at, meta, set_at};
use crate::store::{Key, Range, Stored};

const TABLE: &str = "/secrets";
const ACCOUNTS: &str = "/serviceaccounts";
const KIND: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Fills such secrets until the server stops.
pub(crate) async fn run(app: &App, accounts: &Accounts) {
    let [mut secrets, mut own] = [TABLE, ACCOUNTS].map(|table| Follower::new(app, table));
    let mut waiting = all(app);
    loop {
        for stored in waiting {
            if let Err(failure) = fill(app, accounts, &stored).await {
                tracing::warn!(key = %stored.key, status = %failure.status(), "a secret could not be filled");
            }
        }
        tokio::select! {
            true = secrets.changed() => {}
            true = own.changed() => {}
            else => return,
        }
        // A secret may come before its account.
        let accounts_changed = own.news(app).is_none_or(|events| !events.is_empty());
        waiting = match secrets.news(app) {
            Some(events) if !accounts_changed => {
                events.iter().map(|event| Arc::clone(&event.object)).collect()
            }
            _ => all(app),
        };
    }
}

fn all(app: &App) -> Vec<Arc<Stored>> {
    app.store.page(TABLE, Range { prefix: "", after: None, limit: usize::MAX }).items
}

async fn fill(app: &App, accounts: &Accounts, stored: &Stored) -> Result<(), Failure> {
    let secret = stored.value().map_err(Failure::internal)?;
    let is_full = at(&secret, "data.token").is_some();
    if secret.get("type").and_then(Value::as_str) != Some(KIND) || is_full || stored.deleting {
        return Ok(());
    }
    let annotation = |name: &str| secret.pointer("/metadata/annotations")?.get(name)?.as_str();
    let namespace = stored.key.namespace();
    let account = Key::new(&ACCOUNTS.into(), namespace, annotation(NAME).unwrap_or_default());
    let Some(account) = app.store.get(&account) else { return Ok(()) };
    if annotation(UID).is_some_and(|uid| *uid != *account.uid) {
        return Ok(());
    }
    let token = token(app, accounts, &secret, &account).map_err(Failure::internal)?;
    let catalog = app.catalog();
    let Some(served) = catalog.get("", "v1", "secrets") else { return Ok(()) };
    let data = json!({
        "token": STANDARD.encode(&token), "namespace": STANDARD.encode(namespace),
        "ca.crt": STANDARD.encode(&accounts.root_ca),
    });
    app.edit(served, &stored.key, &stored.uid, |secret| {
        let place = |name: &str| ["metadata".to_owned(), "annotations".to_owned(), name.to_owned()];
        set_at(secret, &place(UID), (*account.uid).into());
        for (field, value) in data.as_object().into_iter().flatten() {
            set_at(secret, &["data".into(), field.clone()], value.clone());
        }
        true
    })
    .await
}

fn token(app: &App, accounts: &Accounts, secret: &Value, account: &Stored) -> Result<String, KeyError> {
    let bound = Bound { name: meta(secret, "name").into(), uid: meta(secret, "uid").into() };
    let private = Private {
        namespace: account.key.namespace().into(),
        secret: Some(bound),
        serviceaccount: Bound { name: account.key.name().into(), uid: (*account.uid).into() },
        ..Private::default()
    };
    accounts.sign(&Claims {
        audiences: accounts.audiences(),
        expires: None,
        issued: app.now().as_second(),
        id: String::new(),
        private,
    })
}
