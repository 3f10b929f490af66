//! Whether an applied configuration fits the type it is applied to, in the words of the real server.

use serde_json::{Map, Value};
use std::collections::HashSet;

use super::element;
use super::shape::{Atom, ListShape, MapShape, Scalar, Shape};

/// Checks a configuration. The message names everything that is wrong.
pub(super) fn validate(shape: Shape<'_>, object: &Value) -> Result<(), String> {
    Check { duplicates: false, path: Vec::new(), errors: Vec::new() }.run(shape, object)
}

/// Checks an object that is there already: its lists may have items that nothing tells apart.
pub(super) fn validate_live(shape: Shape<'_>, object: &Value) -> Result<(), String> {
    Check { duplicates: true, path: Vec::new(), errors: Vec::new() }.run(shape, object)
}

struct Check {
    duplicates: bool,
    path: Vec<String>,
    errors: Vec<String>,
}

impl Check {
    fn run(mut self, shape: Shape<'_>, object: &Value) -> Result<(), String> {
        self.place(shape, object);
        match self.errors.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            many => Err(format!("errors:\n  {}", many.join("\n  "))),
        }
    }

    /// Adds an error. The root has no path.
    fn report(&mut self, message: &str) {
        let path: String = self.path.iter().map(|key| element::show(key)).collect();
        self.errors.push(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") });
    }

    fn place(&mut self, shape: Shape<'_>, value: &Value) {
        match (shape.atom(Some(value)), value) {
            (_, Value::Null) => {}
            (Atom::Scalar(scalar), value) => {
                if let Some(wrong) = check(scalar, value) {
                    self.report(&wrong);
                }
            }
            (Atom::List(list), Value::Array(values)) => self.items(list, values),
            (Atom::Map(map), Value::Object(members)) => self.members(map, members),
            (Atom::List(_), other) => self.report(&format!("expected list, got &{{{}}}", plain(other))),
            (Atom::Map(_), other) => self.report(&format!("expected map, got &{{{}}}", plain(other))),
        }
    }

    fn members(&mut self, map: MapShape<'_>, members: &Map<String, Value>) {
        for (name, value) in members {
            self.path.push(element::field(name));
            let shape = map.member(name).0;
            match shape {
                Some(shape) => self.place(shape, value),
                None => self.report("field not declared in schema"),
            }
            self.path.pop();
            if shape.is_none() {
                return;
            }
        }
    }

    fn items(&mut self, list: ListShape<'_>, values: &[Value]) {
        let mut seen = HashSet::new();
        for (index, value) in values.iter().enumerate() {
            let key = if list.atomic() { Ok(format!("i:{index}")) } else { list.step(value) };
            let key = match key {
                Ok(key) => key,
                Err(why) => {
                    self.report(&format!("element {index}: {why}"));
                    return;
                }
            };
            if !seen.insert(key.clone()) && !self.duplicates {
                self.report(&format!("duplicate entries for key {}", element::show(&key)));
            }
            self.path.push(key);
            self.place(list.item(), value);
            self.path.pop();
        }
    }
}

fn check(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::Number => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Text => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", quoted(value))),
        Scalar::Bool => (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", plain(value))),
        Scalar::Any => (value.is_array() || value.is_object())
            .then(|| format!("expected any scalar, got &{{{}}}", plain(value))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go prints it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", plain(v))).collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A value as Go prints it in its own syntax.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(quoted).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(k, v)| format!("{}:{}", Value::from(k.as_str()), quoted(v))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
