//! The `ValidatingWebhookConfiguration`, whose entries have to name the authority of our certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use kube::Client;
use serde_json::Value;
use trainyard_core::admission::CONFIGURATION;
use trainyard_operator::rest::send;

use super::{Trouble, has_code, why};

const COLLECTION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The configuration, if there is one.
pub(super) async fn read(client: &Client) -> Result<Option<Value>, Trouble> {
    match send(client, Method::GET, &path(), &Value::Null).await {
        Ok(configuration) => Ok(Some(configuration)),
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(Trouble::Configuration { action: "read", why: why(&error) }),
    }
}

/// Writes the authority into every entry, if it is not in all of them. Whether that is done: if not, somebody else has
/// changed the configuration, and it is to be read again.
///
/// A whole PUT on condition of the version: the right to patch is not among those that the operator is given.
pub(super) async fn believe(client: &Client, mut configuration: Value, ca: &[u8]) -> Result<bool, Trouble> {
    if !insert(&mut configuration, &BASE64.encode(ca)) {
        return Ok(true);
    }
    match send(client, Method::PUT, &path(), &configuration).await {
        Ok(_) => {
            tracing::info!(configuration = CONFIGURATION, "wrote the authority of the webhooks");
            Ok(true)
        }
        Err(error) if has_code(&error, 409) || has_code(&error, 404) => Ok(false),
        Err(error) => Err(Trouble::Configuration { action: "update", why: why(&error) }),
    }
}

/// Whether anything changed.
fn insert(configuration: &mut Value, bundle: &str) -> bool {
    let entries = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    let clients =
        entries.into_iter().flatten().filter_map(|entry| entry.get_mut("clientConfig")?.as_object_mut());
    let mut changed = false;
    for client in clients {
        if client.get("caBundle").and_then(Value::as_str) != Some(bundle) {
            client.insert("caBundle".into(), bundle.into());
            changed = true;
        }
    }
    changed
}

fn path() -> String {
    format!("{COLLECTION}/{CONFIGURATION}")
}
