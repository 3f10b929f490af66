//! Bindings of roles, of both scopes.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{age, items, text};

pub(super) fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let subjects = items(object, "subjects").iter().filter(|s| text(s, "kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        text(object, "metadata.name").into(),
        format!("{}/{}", text(object, "roleRef.kind"), text(object, "roleRef.name")).into(),
        age(object, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}
