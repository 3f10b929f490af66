//! Recorded answers: `goldens/THEME.json`, written so that people can read what changed.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;

use crate::row::folder;

/// What fits into this many letters stays on one line.
const WIDTH: usize = 130;

/// Row name to answers.
pub(crate) type Goldens = BTreeMap<String, Value>;

pub(crate) fn read(theme: &str) -> Goldens {
    let path = folder().join("goldens").join(format!("{theme}.json"));
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        Err(_) => Goldens::new(),
    }
}

pub(crate) fn write(theme: &str, goldens: &Goldens) {
    let map: Map<String, Value> = goldens.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut text = String::new();
    render(&Value::Object(map), 0, 0, &mut text);
    text.push('\n');
    fs::write(folder().join("goldens").join(format!("{theme}.json")), text).unwrap();
}

/// JSON with short things on one line. Objects are in the order of their keys, whatever they were made of.
fn render(value: &Value, depth: usize, column: usize, text: &mut String) {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    let line = sorted.to_string();
    let is_whole = column + line.len() <= WIDTH && depth > 1;
    let pad = |depth: usize| " ".repeat(depth);
    match &sorted {
        Value::Object(map) if !is_whole && !map.is_empty() => {
            text.push_str("{\n");
            for (index, (key, child)) in map.iter().enumerate() {
                let key = format!("{}{}: ", pad(depth + 1), Value::from(key.as_str()));
                text.push_str(&key);
                render(child, depth + 1, key.len(), text);
                text.push_str(if index + 1 < map.len() { ",\n" } else { "\n" });
            }
            text.push_str(&pad(depth));
            text.push('}');
        }
        Value::Array(items) if !is_whole && !items.is_empty() => {
            text.push_str("[\n");
            for (index, child) in items.iter().enumerate() {
                text.push_str(&pad(depth + 1));
                render(child, depth + 1, depth + 1, text);
                text.push_str(if index + 1 < items.len() { ",\n" } else { "\n" });
            }
            text.push_str(&pad(depth));
            text.push(']');
        }
        _ => text.push_str(&line),
    }
}

#[test]
fn what_is_written_can_be_read() {
    let long = "x".repeat(200);
    let value = serde_json::json!({"a": [{"b": 1, "c": [long, {"d": {}}]}], "e": "f"});
    let mut text = String::new();
    render(&value, 0, 0, &mut text);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
}
