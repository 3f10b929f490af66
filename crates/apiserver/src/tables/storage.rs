//! Volumes and claims.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{age, has, text, text_or, texts};
use crate::object::meta_map;

/// The older place of a class's name; it wins where both are set.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

fn modes(object: &Value, path: &str) -> String {
    let given = texts(object, path);
    let known = MODES.iter().filter(|(mode, _)| given.contains(mode)).map(|(_, short)| *short);
    known.collect::<Vec<_>>().join(",")
}

fn class(object: &Value) -> &str {
    let annotations = meta_map(object).and_then(|m| m.get("annotations"));
    let older = annotations.and_then(|a| a.get(CLASS)).and_then(Value::as_str);
    older.unwrap_or_else(|| text(object, "spec.storageClassName"))
}

fn phase(object: &Value) -> &str {
    if has(object, "metadata.deletionTimestamp") { "Terminating" } else { text(object, "status.phase") }
}

/// A field that may be left out, which is not the same as empty.
fn optional<'a>(object: &'a Value, path: &str) -> &'a str {
    if has(object, path) { text(object, path) } else { "<unset>" }
}

pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match has(object, "spec.claimRef") {
        true => format!("{}/{}", text(object, "spec.claimRef.namespace"), text(object, "spec.claimRef.name")),
        false => String::new(),
    };
    vec![
        text(object, "metadata.name").into(),
        text_or(object, "spec.capacity.storage", "0").into(),
        modes(object, "spec.accessModes").into(),
        text(object, "spec.persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        optional(object, "spec.volumeAttributesClassName").into(),
        text(object, "status.reason").into(),
        age(object, now),
        optional(object, "spec.volumeMode").into(),
    ]
}

pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "spec.volumeName");
    let bound = !volume.is_empty();
    let capacity = if bound { text_or(object, "status.capacity.storage", "0") } else { "" };
    let modes = if bound { modes(object, "status.accessModes") } else { String::new() };
    vec![
        text(object, "metadata.name").into(),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        optional(object, "spec.volumeAttributesClassName").into(),
        age(object, now),
        optional(object, "spec.volumeMode").into(),
    ]
}
