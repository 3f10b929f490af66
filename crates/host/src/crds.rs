//! The definitions of the job kinds: read, installed, and waited for.

use std::borrow::Cow;
use std::time::Duration;

use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;
use trainyard_api::crds::{ALL, Crd};
use trainyard_core::Kind;
use trainyard_operator::rest::send;

use crate::Error;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What the API answers when the data directory is full.
const FULL: u16 = 507;
/// A definition that is not served by then is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pauses between two looks at a definition. Ours are served at once, a cluster's after a moment.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The definition of a kind.
#[derive(Clone, Debug)]
pub enum Definition {
    /// One that we ship. It is read when its turn comes: all of them at once would take megabytes.
    Shipped(&'static Crd),
    /// Another one.
    Given(Value),
}

impl Definition {
    /// The whole object.
    pub fn read(&self) -> Result<Cow<'_, Value>, Error> {
        match self {
            Self::Given(value) => Ok(Cow::Borrowed(value)),
            Self::Shipped(crd) => serde_json::from_str(crd.json)
                .map(Cow::Owned)
                .map_err(|error| Error::Definition { name: crd.file, source: error.into() }),
        }
    }
}

/// The definitions we ship.
pub fn bundled() -> Vec<Definition> {
    ALL.iter().map(Definition::Shipped).collect()
}

/// The definition of a kind, if it is one of those we ship.
pub fn of_kind(kind: &Kind) -> Option<Definition> {
    let name = format!("{}.{}", kind.plural, kind.group);
    ALL.iter().find(|crd| crd.name == name).map(Definition::Shipped)
}

/// Creates or updates definitions and returns once all of them are served.
pub async fn install(client: &Client, definitions: &[Definition]) -> Result<(), Error> {
    let mut awaited = Vec::new();
    for definition in definitions {
        let definition = definition.read()?;
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let stored = apply(client, name, &definition)
            .await
            .map_err(|source| Error::Install { name: name.to_owned(), source: Box::new(source) })?;
        if !is_established(&stored) {
            awaited.push(name.to_owned());
        }
    }
    for name in awaited {
        established(client, &name).await?;
    }
    Ok(())
}

/// Create first: on a new machine that is the only request. What exists is replaced in its spec alone, so that
/// labels and annotations of administrators stay. Returns what is there now.
async fn apply(client: &Client, name: &str, definition: &Value) -> Result<Value, kube::Error> {
    match send(client, Method::POST, COLLECTION, definition).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        result => return result,
    }
    let path = format!("{COLLECTION}/{name}");
    let mut stored = send(client, Method::GET, &path, &Value::Null).await?;
    // Written again only if it has changed: a write makes the server read the whole schema anew.
    if let (Some(old), Some(new)) = (stored.get("spec"), definition.get("spec"))
        && holds(old, new)
    {
        return Ok(stored);
    }
    if let (Some(fields), Some(spec)) = (stored.as_object_mut(), definition.get("spec")) {
        fields.insert("spec".into(), spec.clone());
        fields.insert("apiVersion".into(), "apiextensions.k8s.io/v1".into());
        fields.insert("kind".into(), "CustomResourceDefinition".into());
    }
    tracing::debug!(name, "updating a definition");
    match send(client, Method::PUT, &path, &stored).await {
        // The one that is there serves its objects, so that they can be looked at and deleted.
        Err(kube::Error::Api(status)) if status.code == FULL => {
            tracing::warn!(
                name,
                error = status.message,
                "a definition could not be updated; the next start tries again"
            );
            send(client, Method::GET, &path, &Value::Null).await
        }
        result => result,
    }
}

/// Whether everything that is wanted is there already. The server may have added to it, but not to the schema: a field
/// that is no longer there has to go.
fn holds(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            let same = |name: &str, there: &Value, wanted: &Value| {
                if name == "schema" { there == wanted } else { holds(there, wanted) }
            };
            wanted.iter().all(|(name, wanted)| there.get(name).is_some_and(|there| same(name, there, wanted)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| holds(there, wanted))
        }
        _ => there == wanted,
    }
}

async fn established(client: &Client, name: &str) -> Result<(), Error> {
    let path = format!("{COLLECTION}/{name}");
    let mut why = "no answer".to_owned();
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    while begun.elapsed() < PATIENCE {
        match send(client, Method::GET, &path, &Value::Null).await {
            Ok(object) if is_established(&object) => return Ok(()),
            Ok(object) => why = object.pointer("/status/conditions").unwrap_or(&json!([])).to_string(),
            Err(error) => why = error.to_string(),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_written_again_when_it_has_changed() {
        let there = json!({ "names": { "kind": "A", "listKind": "AList" }, "versions": [
            { "name": "v1", "schema": { "properties": { "a": {}, "b": {} } } }] });
        let with = |properties: Value| json!({ "names": { "kind": "A" }, "versions": [{ "name": "v1", "schema": { "properties": properties } }] });
        assert!(holds(&there, &with(json!({ "a": {}, "b": {} }))));
        assert!(!holds(&there, &with(json!({ "a": {} }))), "a field went");
        assert!(!holds(&there, &with(json!({ "a": {}, "b": {}, "c": {} }))), "a field came");
        assert!(!holds(&there, &json!({ "names": { "kind": "B" } })));
    }
}
