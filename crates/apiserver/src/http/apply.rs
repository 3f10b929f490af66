//! PATCH with a configuration: server-side apply.

use axum::response::Response;
use serde_json::Value;

use super::body::Input;
use super::update::{Base, modify};
use super::{Call, create, manager, reply};
use crate::decode::{self, Decoded, yaml};
use crate::failure::Failure;
use crate::object::{meta, time};
use crate::registry::Served;
use crate::rules::admit::Strictness;
use crate::rules::update::Scope;

/// How often the object may come and go before that is the client's to see.
const ATTEMPTS: usize = 8;

/// A configuration, and how it is applied.
pub(super) struct Applying {
    pub(super) config: Value,
    pub(super) force: bool,
    pub(super) warnings: Vec<String>,
}

impl Applying {
    /// Reads a configuration of a type: `group/version` and kind.
    pub(super) async fn read(call: &Call, input: Input, of: (&str, &str)) -> Result<Self, Failure> {
        let bytes = input.bytes().await?;
        manager::check_apply(&call.query)?;
        call.query.dry_run()?;
        let (config, warnings) = read_config(&bytes, call.query.strictness()?)?;
        check_type(&config, of)?;
        Ok(Self { config, force: call.query.switch("force"), warnings })
    }
}

/// JSON or YAML; what is there twice counts once, and is told.
fn read_config(bytes: &[u8], strictness: Strictness) -> Result<(Value, Vec<String>), Failure> {
    let bad = |why: String| Failure::bad_request(format!("error decoding YAML: {why}"));
    if let Ok(value @ Value::Object(_)) = serde_json::from_slice(bytes) {
        return Ok((value, Vec::new()));
    }
    let value = yaml::read(bytes).map_err(|error| bad(format!("error converting YAML to JSON: {error}")))?;
    let value = match value {
        Value::Null => Value::Object(serde_json::Map::new()),
        value @ Value::Object(_) => value,
        other => {
            return Err(bad(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                go_kind(&other)
            )));
        }
    };
    let told = matches!(strictness, Strictness::Strict | Strictness::Warn);
    let Some(twice) = told.then(|| yaml::duplicate(bytes)).flatten() else {
        return Ok((value, Vec::new()));
    };
    if strictness == Strictness::Warn {
        return Ok((value, vec![twice]));
    }
    Err(Failure::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: {}{twice}",
        yaml::HEAD
    )))
}

/// What a value is called by those who expected an object.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null | Value::Object(_) => "object",
    }
}

fn check_type(config: &Value, (api_version, kind): (&str, &str)) -> Result<(), Failure> {
    let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
    if (text("apiVersion"), text("kind")) == (api_version, kind) {
        return Ok(());
    }
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    Err(Failure::bad_request(format!("invalid object type: {group}/{version}, Kind={}", text("kind"))))
}

/// An applied object as one of its kind. Values whose types are right and whose texts are not are found here.
fn converted(object: &Value, served: &Served, config: &Value) -> Result<Decoded, Failure> {
    if served.custom {
        return decode::value(object, served);
    }
    decode::converted(object, served, |why| {
        let (group, version) = (&served.group, &served.version);
        let kind = format!("{group}/{version}, Kind={}", served.kind);
        let (namespace, name) = (meta(config, "namespace"), meta(config, "name"));
        Failure::unexpected(format!(
            "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}"
        ))
    })
}

/// Applies a configuration to an object or its status; an object that is not there is made.
pub(super) async fn apply(call: &Call, scope: Scope, input: Input) -> Result<Response, Failure> {
    let served = &call.served;
    let applying = Applying::read(call, input, (&served.api_version, &served.kind)).await?;
    let catalog = call.app.catalog();
    let now = time(call.app.now());
    let track = call.track(&catalog, scope.subresource(), &now);
    for attempt in 1.. {
        let edit = |old: &Value| {
            let new = track.applied(Some(old), &applying.config, applying.force)?;
            track.check_emptied(&new, Some(old))?;
            converted(&new, served, &applying.config)
        };
        match modify(call, scope, Base::Owned, edit).await {
            Err(failure) if failure.code() == 404 && scope == Scope::Main => {}
            Err(failure) => return Err(failure),
            Ok((stored, mut warnings)) => {
                warnings.splice(0..0, applying.warnings.iter().cloned());
                return reply::object(200, served, &stored, call.render, &warnings);
            }
        }
        let new = track.applied(None, &applying.config, applying.force)?;
        let decoded = converted(&new, served, &applying.config)?;
        let uid = meta(&new, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(served, &call.name, &why));
        }
        if meta(&new, "name").is_empty() {
            let url = &call.name;
            return Err(Failure::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            )));
        }
        track.check_emptied(&new, None)?;
        create::authorize(call)?;
        match create::named(call, decoded, Some(&applying.warnings)).await {
            Err(failure) if failure.is_taken() && attempt < ATTEMPTS => {}
            other => return other,
        }
    }
    Err(Failure::modified(served, &call.name))
}
