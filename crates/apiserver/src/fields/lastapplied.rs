//! From client-side to server-side apply: kubectl's own record of what it applied gives it the fields it set.

use serde_json::Value;

use super::collect::collect;
use super::compare::compare;
use super::set::Set;
use super::target::Target;
use super::validate::validate;
use crate::object::{meta_map, meta_mut};

/// Only this owner is known to have kept such a record.
pub(super) const MANAGER: &str = "kubectl";
const RECORD: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn record(object: &Value) -> Option<&str> {
    meta_map(object)?.get("annotations")?.get(RECORD)?.as_str().filter(|text| !text.is_empty())
}

/// What the record says was applied and is still there.
pub(super) fn owned(target: &Target<'_>, live: &Value) -> Option<Set> {
    let config: Value = serde_json::from_str(record(live)?).ok()?;
    if config.get("apiVersion").and_then(Value::as_str) != Some(target.api_version) {
        return None;
    }
    let shape = target.own.shape;
    validate(shape, &config).ok()?;
    let mut owned = collect(shape, &config).ok()?;
    let changes = compare(shape, &config, live).ok()?;
    for changed in [&changes.modified, &changes.added, &changes.removed] {
        owned.subtract(changed);
    }
    Some(owned)
}

/// Keeps an existing record true to what was applied, for clients that go on using it.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if record(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) =
        meta_mut(&mut config).and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        annotations.remove(RECORD);
    }
    let annotations = meta_mut(object).and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.insert(RECORD.into(), format!("{config}\n").into());
    }
}
