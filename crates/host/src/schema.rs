//! What the definition of a kind says about a manifest, without a server.
//!
//! The engine reads what it knows and ignores the rest, so a misspelt field would go unnoticed. The definition knows
//! every field: it is the same check that an API server makes when kubectl asks it to be strict.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use trainyard_apiserver::schema::Structural;
use trainyard_core::{FieldError, Kind};

use crate::{Error, crds};

/// Schemas that were read before, by the name of their definition.
static PARSED: Mutex<BTreeMap<String, Arc<Structural>>> = Mutex::new(BTreeMap::new());

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

fn schema_of(kind: &Kind) -> Result<Option<Arc<Structural>>, Error> {
    let name = format!("{}.{}", kind.plural, kind.group);
    let mut known = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schema) = known.get(&name) {
        return Ok(Some(Arc::clone(schema)));
    }
    let definition = crds::of_kind(kind);
    let definition = definition.as_ref().map(crds::Definition::read).transpose()?;
    let versions =
        definition.as_deref().and_then(|crd| crd.pointer("/spec/versions")).and_then(Value::as_array);
    let version =
        versions.into_iter().flatten().find(|v| v.get("name").and_then(Value::as_str) == Some(kind.version));
    let Some(schema) = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")) else {
        return Ok(None);
    };
    let parsed = Structural::parse(schema).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Error::Schema { name: name.clone(), errors: errors.join("; ") }
    })?;
    Ok(Some(Arc::clone(known.entry(name).or_insert_with(|| Arc::new(parsed)))))
}
