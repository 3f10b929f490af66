//! The `scale` subresource: a small object that stands for two or three fields of another.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::object::{meta, meta_map, set_at};
use crate::registry::{ScalePaths, Served};
use crate::selector::LabelSelector;

fn follow<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
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
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)}, "status": status,
    })
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
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = crate::failure::Cause::invalid("spec.replicas", replicas, why);
        return Err(Failure::invalid(served, name, vec![cause]));
    }
    let mut object = object.clone();
    if !set_at(&mut object, &paths.spec_replicas, replicas.into()) {
        return Err(Failure::internal("the path of the replicas leads through a value that is no object"));
    }
    Ok(object)
}
