//! The `scale` subresource: a small object that stands for two or three fields of another.

use serde_json::{Value, json};

use super::track::{OneVersion, Track};
use crate::failure::Failure;
use crate::fields;
use crate::fields::scale::Replicas;
use crate::object::{meta, meta_map, set_at};
use crate::registry::{ScalePaths, Served};
use crate::schema::FieldError;
use crate::selector::LabelSelector;

pub(crate) const API_VERSION: &str = "autoscaling/v1";
pub(crate) const KIND: &str = "Scale";
const SCALE: OneVersion = OneVersion { api_version: API_VERSION, kind: KIND };

pub(crate) fn follow<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(part))
}

/// The `Scale` of an object.
pub(crate) fn show(paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &[String]| follow(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta_map(object).and_then(|m| m.get(field)) {
            set_at(&mut metadata, &[field.to_owned()], value.clone());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(selector) = paths.selector.as_ref().and_then(|path| follow(object, path)) {
        let text = match selector {
            Value::Object(_) => LabelSelector::from_object(selector).unwrap_or_default().to_string().into(),
            other => other.clone(),
        };
        set_at(&mut status, &["selector".to_owned()], text);
    }
    json!({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": metadata,
        // None are not shown: to ask for none is to say nothing.
        "spec": match number(&paths.spec_replicas) {
            0 => json!({}),
            replicas => json!({"replicas": replicas}),
        },
        "status": status,
    })
}

/// What is wrong with the replicas of a custom object, wherever its definition says they are.
pub(crate) fn wrong(paths: &ScalePaths, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let place = format!(".{}", path.join("."));
        let Some(value) = follow(object, path) else {
            errors.extend(
                obstacle(object, path).map(|found| accessor(&place, found, "map[string]interface{}")),
            );
            continue;
        };
        match value.as_i64() {
            Some(number) if number < 0 => {
                errors.push(FieldError::invalid(place, value, "should be a non-negative integer"));
            }
            Some(number) if number > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(place, value, why));
            }
            Some(_) => {}
            None => errors.push(accessor(&place, value, "int64")),
        }
    }
    errors.extend(paths.selector.as_ref().and_then(|path| wrong_selector(path, object)));
    errors
}

fn wrong_selector(path: &[String], object: &Value) -> Option<FieldError> {
    let value = follow(object, path).filter(|value| !value.is_string())?;
    Some(accessor(&format!(".{}", path.join(".")), value, "string"))
}

/// The value on a path that has no members, if there is one.
fn obstacle<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut value = object;
    for part in path {
        if !value.is_object() {
            return Some(value).filter(|value| !value.is_null());
        }
        value = value.get(part)?;
    }
    None
}

/// What Go says of a value that is not what a path leads through, or to.
fn accessor(place: &str, value: &Value, expected: &str) -> FieldError {
    let (shown, kind) = match value {
        Value::String(text) => (text.clone(), "string"),
        Value::Bool(_) => (value.to_string(), "bool"),
        Value::Number(_) => (value.to_string(), "float64"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
        Value::Null => ("<nil>".to_owned(), "<nil>"),
    };
    let why = format!("{place} accessor error: {shown} is of the type {kind}, expected {expected}");
    // What Go has read by then.
    let nothing = if expected == "string" { Value::from("") } else { Value::from(0) };
    FieldError::invalid(place, &nothing, why)
}

/// Who owns the replicas of an object, as seen through this door.
pub(crate) struct Owners<'a> {
    pub(crate) track: Track<'a>,
    pub(crate) paths: &'a ScalePaths,
}

impl Owners<'_> {
    fn replicas<T>(&self, act: impl FnOnce(&Replicas<'_>) -> T) -> T {
        let other = |api_version: &str| {
            let served = self.track.sibling(api_version)?;
            Some(served.scale.as_ref().map(|paths| paths.spec_replicas.clone()).unwrap_or_default())
        };
        let (api_version, path) = (&self.track.served.api_version, &self.paths.spec_replicas);
        act(&Replicas { api_version, path, other: &other })
    }

    /// The `Scale` of an object with the owners of what it shows.
    pub(crate) fn show(&self, object: &Value) -> Result<Value, Failure> {
        let mut scale = show(self.paths, object);
        self.replicas(|of| fields::scale::show(of, object, &mut scale)).map_err(Failure::internal)?;
        Ok(scale)
    }

    /// Says in a changed `Scale` who owns what now.
    pub(crate) fn updated(&self, old: &Value, new: &mut Value) {
        // None are nothing, also where a client writes them.
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
            && spec.get("replicas").is_some_and(|replicas| *replicas == 0)
        {
            spec.remove("replicas");
        }
        fields::update(&SCALE.target(), &self.track.writer, old, new);
    }

    /// What a configuration makes of a `Scale`.
    pub(crate) fn applied(&self, old: &Value, config: &Value, force: bool) -> Result<Value, Failure> {
        fields::apply(&SCALE.target(), &self.track.writer, old, config, force).map_err(Failure::apply)
    }

    /// The object as a `Scale` wants it, owned by those who own that.
    pub(crate) fn take_over(&self, object: &Value, scale: &Value) -> Result<Value, Failure> {
        let mut object = apply(self.track.served, self.paths, object, scale)?;
        self.replicas(|of| fields::scale::take_over(of, &mut object, scale)).map_err(Failure::internal)?;
        Ok(object)
    }
}

/// The object with the replicas a `Scale` asks for, and its precondition.
pub(crate) fn apply(
    served: &Served,
    paths: &ScalePaths,
    object: &Value,
    scale: &Value,
) -> Result<Value, Failure> {
    let name = meta(object, "name");
    let version = meta(scale, "resourceVersion");
    if !version.is_empty() && version != meta(object, "resourceVersion") {
        return Err(Failure::modified(served, name));
    }
    let replicas = match scale.get("spec").and_then(|s| s.get("replicas")) {
        None => 0,
        Some(value) => value
            .as_i64()
            .ok_or_else(|| Failure::bad_request("Scale in version \"v1\": spec.replicas is not a number"))?,
    };
    // What is wrong with the replicas of a custom object is found with everything else.
    if replicas < 0 && !served.custom {
        let why = "must be greater than or equal to 0";
        let cause = crate::failure::Cause::invalid("spec.replicas", replicas, why);
        return Err(Failure::invalid_kind(KIND, "autoscaling", name, vec![cause]));
    }
    let mut object = object.clone();
    if !set_at(&mut object, &paths.spec_replicas, replicas.into()) {
        return Err(Failure::internal("the path of the replicas leads through a value that is no object"));
    }
    Ok(object)
}
