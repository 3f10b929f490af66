//! The small kinds: a name and a fact or two.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{age, count, flag, int, items, text};

fn name(object: &Value) -> Value {
    text(object, "metadata.name").into()
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (count(object, "data") + count(object, "binaryData")).into(), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "type").into(), count(object, "data").into(), age(object, now)]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "status.phase").into(), age(object, now)]
}

pub(super) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "spec.holderIdentity").into(), age(object, now)]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        int(object, "value").into(),
        flag(object, "globalDefault").into(),
        age(object, now),
        text(object, "preemptionPolicy").into(),
    ]
}

/// Both kinds of webhook configuration.
pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "webhooks").len().into(), age(object, now)]
}
