//! What the definition of a kind says about a manifest, without a server.
//!
//! The engine reads what it knows and ignores the rest, so a misspelt field would go unnoticed. The definition knows
//! every field: it is the same check that an API server makes when kubectl asks it to be strict.

use serde_json::Value;
use trainyard_apiserver::schema::Structural;
use trainyard_core::{FieldError, Kind};

use crate::{Error, crds};

/// Unknown fields and values that the definition refuses. Empty for kinds that are not among those we ship.
pub fn errors(kind: &Kind, manifest: &Value) -> Result<Vec<FieldError>, Error> {
    let Some(schema) = schema_of(kind)? else { return Ok(Vec::new()) };
    let mut object = manifest.clone();
    let unknown = schema.prune(&mut object);
    schema.default(&mut object);
    let refused = schema.validate(&object, None);
    let unknown = unknown.into_iter().map(|path| FieldError {
        message: "Unknown field: it would be dropped; check its spelling and place".into(),
        path,
    });
    // `<nil>` is the object itself: there the server only says that it stopped looking.
    let refused = refused.into_iter().filter(|error| error.field != "<nil>");
    let refused = refused.map(|error| FieldError { path: error.field, message: error.message });
    Ok(unknown.chain(refused).collect())
}

fn schema_of(kind: &Kind) -> Result<Option<Structural>, Error> {
    let name = format!("{}.{}", kind.plural, kind.group);
    let definition = crds::bundled()?
        .into_iter()
        .find(|crd| crd.pointer("/metadata/name").and_then(Value::as_str) == Some(name.as_str()));
    let versions =
        definition.as_ref().and_then(|crd| crd.pointer("/spec/versions")).and_then(Value::as_array);
    let version =
        versions.into_iter().flatten().find(|v| v.get("name").and_then(Value::as_str) == Some(kind.version));
    let Some(schema) = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")) else {
        return Ok(None);
    };
    Structural::parse(schema).map(Some).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Error::Schema { name, errors: errors.join("; ") }
    })
}
