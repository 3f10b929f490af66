//! The definitions of the job kinds: read, installed, and waited for.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::Error;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How often a definition is looked at, and how many times, before it is given up: 30 s.
const LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// The definitions we ship.
pub fn bundled() -> Result<Vec<Value>, Error> {
    let read = |crd: &trainyard_api::crds::Crd| {
        serde_saphyr::from_str::<Value>(crd.yaml)
            .map_err(|error| Error::Definition { name: crd.file, source: error.into() })
    };
    trainyard_api::crds::ALL.iter().map(read).collect()
}

/// Creates or updates definitions and returns once all of them are served.
pub async fn install(client: &Client, definitions: &[Value]) -> Result<(), Error> {
    for definition in definitions {
        let name = name_of(definition);
        apply(client, &name, definition)
            .await
            .map_err(|source| Error::Install { name, source: Box::new(source) })?;
    }
    for definition in definitions {
        established(client, &name_of(definition)).await?;
    }
    Ok(())
}

fn name_of(definition: &Value) -> String {
    definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Create first: on a new machine that is the only request. What exists is replaced in its spec alone, so that
/// labels and annotations of administrators stay.
async fn apply(client: &Client, name: &str, definition: &Value) -> Result<(), kube::Error> {
    match send(client, Method::POST, COLLECTION, "application/json", definition).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        result => return result.map(drop),
    }
    let path = format!("{COLLECTION}/{name}");
    let old = send(client, Method::GET, &path, "application/json", &Value::Null).await?;
    let version = old.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let mut new = old.clone();
    if let (Some(fields), Some(spec)) = (new.as_object_mut(), definition.get("spec")) {
        fields.insert("spec".into(), spec.clone());
        fields.insert("apiVersion".into(), "apiextensions.k8s.io/v1".into());
        fields.insert("kind".into(), "CustomResourceDefinition".into());
    }
    tracing::debug!(name, %version, "updating a definition");
    send(client, Method::PUT, &path, "application/json", &new).await.map(drop)
}

async fn established(client: &Client, name: &str) -> Result<(), Error> {
    let path = format!("{COLLECTION}/{name}");
    let mut why = "no answer".to_owned();
    for _ in 0..LOOKS {
        match send(client, Method::GET, &path, "application/json", &Value::Null).await {
            Ok(object) if is_established(&object) => return Ok(()),
            Ok(object) => why = object.pointer("/status/conditions").unwrap_or(&json!([])).to_string(),
            Err(error) => why = error.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::NotEstablished { name: name.to_owned(), why })
}

fn is_established(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| {
        c.get("type").and_then(Value::as_str) == Some("Established")
            && c.get("status").and_then(Value::as_str) == Some("True")
    })
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", content).body(bytes);
    client.request(request.map_err(kube::Error::HttpError)?).await
}
