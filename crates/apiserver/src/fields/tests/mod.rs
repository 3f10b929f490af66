//! A small world of one object with several writers.

mod applying;
mod properties;
mod tracking;

use serde_json::{Value, json};

use super::entries::Operation;
use super::set::Set;
use super::shape::Shape;
use super::{ApplyError, Target, Version, Versions, Writer, apply, update};
use crate::object::meta;
use crate::schema::Structural;

pub(super) const V1: &str = "example.com/v1";

/// A type with every way to share a place.
pub(super) fn schema() -> Structural {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": number, "protocol": {"type": "string", "default": "TCP"}, "name": text,
        }},
    });
    let items = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": text, "value": text, "ports": ports,
            "args": {"type": "array", "items": text},
        }},
    });
    Structural::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": number, "image": text, "ports": ports, "items": items,
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "args": {"type": "array", "items": text},
            "env": {"type": "object", "additionalProperties": text},
            "limits": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "nested": {"type": "object", "properties": {
                "a": text, "b": text, "deep": {"type": "object", "properties": {"x": text, "y": text}},
            }},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "either": {"x-kubernetes-int-or-string": true},
        }},
        "status": {"type": "object", "properties": {"phase": text}},
    }}))
    .unwrap()
}

/// No other version is served.
pub(super) struct Alone;

impl Versions for Alone {
    fn blank(&self) -> Value {
        World::blank()
    }
}

/// One object and its type.
pub(super) struct World {
    schema: Structural,
    pub(super) object: Value,
    pub(super) now: u32,
}

impl World {
    pub(super) fn new() -> Self {
        Self { schema: schema(), object: Value::Null, now: 0 }
    }

    fn blank() -> Value {
        json!({"apiVersion": V1, "kind": "Widget"})
    }

    fn live(&self) -> Value {
        if self.object.is_null() { Self::blank() } else { self.object.clone() }
    }

    fn run<T>(&self, manager: &str, status: bool, act: impl FnOnce(&Target<'_>, &Writer<'_>) -> T) -> T {
        let reset: &[&[&str]] = if status { &[&["metadata"], &["spec"]] } else { &[&["status"]] };
        let reset = Set::of_fields(reset);
        let shape = Shape::Resource(self.schema.view());
        let target = Target {
            api_version: V1,
            kind: "Widget",
            own: Version { shape, reset: &reset, unsent: None },
            versions: &Alone,
            stale: false,
        };
        let now = format!("2026-01-01T00:00:{:02}Z", self.now);
        let writer = Writer { manager, subresource: if status { "status" } else { "" }, now: &now };
        act(&target, &writer)
    }

    fn stored(&mut self, mut object: Value) {
        object["metadata"]["uid"] = json!("u");
        self.object = object;
    }

    /// Applies the members of an object beside its type and name.
    pub(super) fn apply(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApplyError> {
        let mut whole = json!({"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w"}});
        json_patch::merge(&mut whole, &config);
        let live = self.live();
        let object =
            self.run(manager, false, |target, writer| apply(target, writer, &live, &whole, force))?;
        self.stored(object);
        Ok(())
    }

    /// Replaces the object.
    pub(super) fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        self.write(manager, false, change);
    }

    pub(super) fn update_status(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        self.write(manager, true, change);
    }

    fn write(&mut self, manager: &str, status: bool, change: impl FnOnce(&mut Value)) {
        let live = self.live();
        let mut new = live.clone();
        if new.get("metadata").is_none() {
            new["metadata"] = json!({"name": "w"});
        }
        change(&mut new);
        self.run(manager, status, |target, writer| update(target, writer, &live, &mut new));
        self.stored(new);
    }

    /// The owners: name, operation, fields.
    pub(super) fn owners(&self) -> Value {
        let list = self.object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        Value::Array(list.iter().map(|e| json!([e["manager"], e["operation"], e["fieldsV1"]])).collect())
    }

    pub(super) fn spec(&self) -> &Value {
        &self.object["spec"]
    }

    /// The paths somebody owns, as people read them.
    pub(super) fn owned(&self, manager: &str, operation: Operation) -> Vec<String> {
        let list = self.object["metadata"].get("managedFields").cloned();
        let entries = super::entries::stored(list).unwrap();
        let mine = entries.iter().filter(|e| e.manager == manager && e.operation == operation);
        mine.flat_map(|entry| entry.set().paths()).collect()
    }

    pub(super) fn name(&self) -> &str {
        meta(&self.object, "name")
    }
}

pub(super) fn conflicts(error: &ApplyError) -> Vec<String> {
    match error {
        ApplyError::Conflicts(list) => list.iter().map(|c| format!("{} {}", c.with, c.path)).collect(),
        other => panic!("{other:?}"),
    }
}
