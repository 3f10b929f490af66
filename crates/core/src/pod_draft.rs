//! A pod in the making: the user's template, and what is added to it.
//!
//! It works on the raw JSON, so that fields newer than this build pass through untouched. Whatever shape the
//! template has, nothing here panics: validation has already said what is wrong with it.

use serde_json::{Map, Value, json};

/// A pod in the making.
#[derive(Clone, Debug)]
pub struct PodDraft {
    body: Value,
}

impl PodDraft {
    /// Starts from a template: its labels, annotations and finalizers, and its spec.
    pub fn new(template: &Value, name: &str, namespace: &str) -> Self {
        let mut metadata = Map::new();
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
                metadata.insert(field.into(), value.clone());
            }
        }
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), namespace.into());
        let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        Self { body: json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }) }
    }

    /// The finished object.
    pub fn into_body(self) -> Value {
        self.body
    }

    /// Sets a label, whatever the template said.
    pub fn set_label(&mut self, key: &str, value: impl Into<Value>) {
        self.set_in("labels", key, value.into());
    }

    /// Sets an annotation, whatever the template said.
    pub fn set_annotation(&mut self, key: &str, value: impl Into<Value>) {
        self.set_in("annotations", key, value.into());
    }

    /// Sets any field of the metadata.
    pub fn set_metadata(&mut self, field: &str, value: Value) {
        if let Some(metadata) = self.body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(field.into(), value);
        }
    }

    /// Adds a finalizer to those of the template.
    pub fn push_finalizer(&mut self, name: &str) {
        let Some(metadata) = self.body.get_mut("metadata") else {
            return;
        };
        let there = metadata.get("finalizers").and_then(Value::as_array);
        if !there.is_some_and(|list| list.iter().any(|known| known.as_str() == Some(name))) {
            push(metadata, "finalizers", name.into());
        }
    }

    /// Sets any field of the spec.
    pub fn set_spec(&mut self, field: &str, value: impl Into<Value>) {
        if let Some(spec) = self.body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert(field.into(), value.into());
        }
    }

    /// Sets a field of the spec if the template says nothing about it.
    pub fn default_spec(&mut self, field: &str, value: impl Into<Value>) {
        let said = self.body.pointer(&format!("/spec/{field}"));
        if said.is_none_or(|said| said.is_null() || said.as_str() == Some("")) {
            self.set_spec(field, value);
        }
    }

    /// Appends to a list of the spec: `volumes`, `initContainers`.
    pub fn push_spec(&mut self, field: &str, item: Value) {
        if let Some(spec) = self.body.get_mut("spec") {
            push(spec, field, item);
        }
    }

    /// The first container, which is the one that matters where names do not.
    pub fn first_container(&mut self) -> Option<&mut Value> {
        self.containers().next()
    }

    /// Adds an environment variable to every container that is not an init container.
    pub fn set_env_everywhere(&mut self, name: &str, value: impl Into<String>) {
        self.push_env_everywhere(&json!({ "name": name, "value": value.into() }));
    }

    /// Adds an environment variable whose value Kubernetes fills in (`valueFrom`) to every container that is not an
    /// init container.
    pub fn set_env_from_everywhere(&mut self, name: &str, value_from: &Value) {
        self.push_env_everywhere(&json!({ "name": name, "valueFrom": value_from }));
    }

    fn push_env_everywhere(&mut self, entry: &Value) {
        for container in self.containers() {
            push_env(container, entry.clone());
        }
    }

    /// Adds an environment variable to the first container of that name.
    pub fn set_env(&mut self, container: &str, name: &str, value: impl Into<String>) {
        if let Some(container) = self.containers().find(|c| name_of(c) == Some(container)) {
            push_env(container, json!({ "name": name, "value": value.into() }));
        }
    }

    /// Gives the named port of a container a fixed number, on the machine too.
    pub fn set_host_port(&mut self, container: &str, port_name: &str, port: u16) {
        let Some(container) = self.containers().find(|c| name_of(c) == Some(container)) else {
            return;
        };
        let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) else {
            return;
        };
        for entry in ports.iter_mut().filter(|p| name_of(p) == Some(port_name)) {
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("containerPort".into(), port.into());
                entry.insert("hostPort".into(), port.into());
            }
        }
    }

    fn containers(&mut self) -> impl Iterator<Item = &mut Value> {
        self.body.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten()
    }

    fn set_in(&mut self, map: &str, key: &str, value: Value) {
        let Some(metadata) = self.body.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let entry = metadata.entry(map).or_insert_with(|| json!({}));
        if !entry.is_object() {
            *entry = json!({});
        }
        if let Some(entry) = entry.as_object_mut() {
            entry.insert(key.into(), value);
        }
    }
}

fn name_of(value: &Value) -> Option<&str> {
    value.get("name").and_then(Value::as_str)
}

/// Appended, not replaced: of two equal names the kubelet takes the last, so ours wins and the user's stays
/// readable.
fn push_env(container: &mut Value, entry: Value) {
    push(container, "env", entry);
}

/// Appends to a list of an object.
pub(crate) fn push(object: &mut Value, list: &str, item: Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let items = object.entry(list).or_insert_with(|| json!([]));
    if !items.is_array() {
        *items = json!([]);
    }
    if let Some(items) = items.as_array_mut() {
        items.push(item);
    }
}
