//! Pruning, defaulting and validation: the same for objects that are created, replaced or patched.

use serde_json::Value;

use super::scale;
use super::track::Track;
use super::update::Scope;
use crate::builtin;
use crate::crd;
use crate::decode::Decoded;
use crate::failure::{Cause, Failure};
use crate::object::{finalizers, meta, metadata, names};
use crate::registry::{Conversion, Served};

/// What happens to fields the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strictness {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// An object ready to be stored, with what the client should be warned of.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// What an object takes the place of.
#[derive(Debug)]
pub(crate) struct Replaced<'a> {
    pub(crate) old: &'a Value,
    /// Fields of the spec that the server kept, because the writer left them out.
    pub(crate) kept: &'a [&'a str],
    /// What is wrong already.
    pub(crate) causes: Vec<Cause>,
}

/// Drops what the schema does not know and fills in defaults, those of a new object or of any; what was dropped.
pub(crate) fn default(served: &Served, object: &mut Value, new: bool) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(schema) = &served.schema {
        unknown = schema.prune(object);
        schema.default(object);
    } else {
        builtin::defaults::apply(served, object, new);
    }
    if served.is_crd() {
        crd::default(object);
    }
    unknown
}

/// An object as it is before it is checked: what webhooks are shown.
pub(crate) fn draft(
    served: &Served,
    decoded: Decoded,
    new: bool,
    strictness: Strictness,
) -> Result<Admitted, Failure> {
    let Decoded { mut object, mut remarks, patched } = decoded;
    let unknown = default(served, &mut object, new);
    remarks.extend(unknown.into_iter().map(|field| format!("unknown field {field:?}")));
    let warnings = match strictness {
        Strictness::Ignore => Vec::new(),
        Strictness::Strict if !remarks.is_empty() => {
            return Err(Decoded::strict_error(&remarks, patched.as_deref(), served));
        }
        Strictness::Warn | Strictness::Strict => remarks,
    };
    Ok(Admitted { object, warnings })
}

/// Takes fields out of a spec.
fn take(object: &mut Value, fields: &[&str]) -> Vec<(String, Value)> {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Vec::new() };
    fields.iter().filter_map(|field| spec.remove_entry(*field)).collect()
}

fn put(object: &mut Value, fields: Vec<(String, Value)>) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.extend(fields);
    }
}

/// Checks an object whose metadata is already stamped. Fields of the spec that the server kept are not those of the writer.
/// Without `track` the object already says who owns its fields.
pub(crate) fn admit(
    served: &Served,
    decoded: Decoded,
    replaced: Option<Replaced<'_>>,
    (scope, strictness): (Scope, Strictness),
    track: Option<&Track<'_>>,
) -> Result<Admitted, Failure> {
    let old = replaced.as_ref().map(|replaced| replaced.old);
    let unsent =
        track.filter(|_| old.is_none()).map(|track| track.unsent(&decoded.object)).unwrap_or_default();
    let Admitted { mut object, mut warnings } = draft(served, decoded, old.is_none(), strictness)?;
    match (track, &replaced) {
        (None, _) => {}
        (Some(track), None) => track.created(&mut object, &unsent),
        (Some(track), Some(Replaced { old, kept, .. })) => {
            let aside = take(&mut object, kept);
            track.updated(old, &mut object);
            put(&mut object, aside);
        }
    }
    let mut causes = builtin::validate::first(served, &object);
    if causes.is_empty() {
        causes = replaced.map(|replaced| replaced.causes).unwrap_or_default();
        causes.extend(validate(served, &object, old, scope));
    }
    if !causes.is_empty() {
        let name = meta(&object, "name").to_owned();
        // Both Event APIs speak of core events.
        let group = if served.conversion == Conversion::Events { "" } else { &served.group };
        return Err(Failure::invalid_kind(&served.kind, group, &name, causes).warned(&warnings));
    }
    if served.custom {
        let known = old.map(finalizers).unwrap_or_default();
        let new: Vec<&str> = finalizers(&object).into_iter().filter(|name| !known.contains(name)).collect();
        warnings.extend(names::short_finalizers(&new));
    }
    if served.schema.is_none() {
        // Nobody is warned of what only stands beside the status.
        if scope == Scope::Main {
            warnings.extend(builtin::warnings::of(served, &object, old));
        }
        builtin::defaults::finish(served, &mut object);
    }
    Ok(Admitted { object, warnings })
}

/// How often a real server checks metadata when it creates an object, or writes a part of it.
fn rounds(served: &Served, updated: Option<Scope>) -> (usize, usize) {
    let Some(scope) = updated else { return (1, 1) };
    match served.plural.as_str() {
        _ if served.custom => (3, 1),
        "leases" | "services" | "deployments" | "replicasets" | "endpointslices" => (3, 1),
        "horizontalpodautoscalers" | "priorityclasses" => (3, 1),
        _ if scope == Scope::Status => (3, 1),
        _ => (4, 2),
    }
}

/// What is wrong with an object.
pub(super) fn validate(served: &Served, object: &Value, old: Option<&Value>, scope: Scope) -> Vec<Cause> {
    let mut causes = metadata::validate(served, object, rounds(served, old.map(|_| scope)));
    if let Some(schema) = &served.schema {
        let replicas = served.scale.as_ref().map(|paths| scale::wrong(paths, object)).unwrap_or_default();
        let missing = causes.iter().any(|cause| cause.reason == "FieldValueRequired");
        let wrong = match scope {
            Scope::Main => schema.validate_with(object, old, (replicas, missing)),
            Scope::Status => schema.validate_status(object, old, (replicas, missing)),
        };
        causes.extend(wrong.into_iter().map(Cause::from));
    } else if served.is_crd() {
        causes.extend(crd::validate(object, old));
    } else {
        causes.extend(builtin::validate::check(served, object, old));
    }
    causes
}
