//! The Secret in which all replicas of the operator find the same certificates.
//!
//! Whoever finds them missing or stale makes new ones and writes them on condition of the version that was read: of several
//! replicas one succeeds, and the others read what it wrote.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Map, Value, json};
use trainyard_operator::rest::send;

use super::certificates::Pems;
use super::{Trouble, Webhooks, has_code, why};

/// Enough for as many replicas as anybody starts at once.
const ATTEMPTS: usize = 8;

/// Certificates that were found or made, and what keeps better ones from being written.
pub(super) struct Found {
    pub(super) pems: Pems,
    pub(super) trouble: Option<Trouble>,
}

/// The certificates to serve with, renewed if need be.
pub(super) async fn certificates(
    client: &Client,
    webhooks: &Webhooks,
    now: Timestamp,
) -> Result<Found, Trouble> {
    let name = webhooks.dns_name();
    for _ in 0..ATTEMPTS {
        let secret = read(client, webhooks).await?;
        let pems = secret.as_ref().map(pems).unwrap_or_default();
        let Some(reason) = pems.stale(&name, now) else { return Ok(Found { pems, trouble: None }) };
        let new = pems.renewed(&name, now)?;
        match write(client, webhooks, secret, &new).await {
            Ok(true) => {
                tracing::info!(secret = full_name(webhooks), reason, "made certificates for webhooks");
                return Ok(Found { pems: new, trouble: None });
            }
            // Somebody was quicker: what did they write?
            Ok(false) => {}
            // What is about to expire is better than nothing.
            Err(trouble) if pems.usable(&name, now).is_ok() => {
                return Ok(Found { pems, trouble: Some(trouble) });
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Err(Trouble::Contended { secret: full_name(webhooks) })
}

async fn read(client: &Client, webhooks: &Webhooks) -> Result<Option<Value>, Trouble> {
    let path = format!("{}/{}", collection(webhooks), webhooks.secret);
    match send(client, Method::GET, &path, &Value::Null).await {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(trouble("read", webhooks, &error)),
    }
}

/// Whether it was written; if not, somebody else has.
async fn write(
    client: &Client,
    webhooks: &Webhooks,
    old: Option<Value>,
    pems: &Pems,
) -> Result<bool, Trouble> {
    let data: Map<String, Value> =
        pems.0.iter().map(|(name, bytes)| (name.clone(), BASE64.encode(bytes).into())).collect();
    let collection = collection(webhooks);
    let Some(mut secret) = old else {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": webhooks.secret }, "data": data });
        return match send(client, Method::POST, &collection, &secret).await {
            Ok(_) => Ok(true),
            Err(error) if has_code(&error, 409) => Ok(false),
            Err(error) => Err(Trouble::NoSecret { secret: full_name(webhooks), why: why(&error) }),
        };
    };
    // With its version, which was read: the server refuses if it is another by now.
    if let Some(fields) = secret.as_object_mut() {
        fields.insert("data".into(), data.into());
    }
    match send(client, Method::PUT, &format!("{collection}/{}", webhooks.secret), &secret).await {
        Ok(_) => Ok(true),
        Err(error) if has_code(&error, 409) || has_code(&error, 404) => Ok(false),
        Err(error) => Err(trouble("update", webhooks, &error)),
    }
}

/// What is in it. A value that is no base64 cannot come from a server; it is as good as none.
fn pems(secret: &Value) -> Pems {
    let data = secret.get("data").and_then(Value::as_object);
    let files = data.into_iter().flatten().filter_map(|(name, value)| {
        let bytes = BASE64.decode(value.as_str()?).ok()?;
        Some((name.clone(), bytes))
    });
    Pems(files.collect())
}

fn collection(webhooks: &Webhooks) -> String {
    format!("/api/v1/namespaces/{}/secrets", webhooks.namespace)
}

fn full_name(webhooks: &Webhooks) -> String {
    format!("{}/{}", webhooks.namespace, webhooks.secret)
}

fn trouble(action: &'static str, webhooks: &Webhooks, error: &kube::Error) -> Trouble {
    Trouble::Secret { action, secret: full_name(webhooks), why: why(error) }
}
