//! The three-way merge of `apply`: what the user wrote last time, what they write now, what is stored.
//!
//! Deletions come from the first two, additions and changes from the last two: so a field that somebody else set
//! stays, and a field that the user took out of the manifest goes. What was written last time is kept in the object,
//! in kubectl's annotation and in kubectl's spelling, so that both can take turns on one object.

use serde_json::{Map, Value};

/// Where kubectl keeps what was applied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object to be stored: the manifest with the note of itself.
pub(crate) fn with_note(manifest: &Value) -> Value {
    let mut bare = manifest.clone();
    set_annotation(&mut bare, None);
    let mut text = String::new();
    write(&bare, &mut text);
    text.push('\n');
    set_annotation(&mut bare, Some(text));
    bare
}

/// What was applied last time, as far as the object says.
pub(crate) fn last_applied(object: &Value) -> Option<Value> {
    let annotations = object.pointer("/metadata/annotations")?;
    serde_json::from_str(annotations.get(LAST_APPLIED)?.as_str()?).ok()
}

/// Kubectl writes empty annotations too; the note of one and the same manifest must be one and the same text.
fn set_annotation(object: &mut Value, note: Option<String>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    if let Some(map) = annotations.as_object_mut() {
        map.remove(LAST_APPLIED);
        map.extend(note.map(|note| (LAST_APPLIED.to_owned(), note.into())));
    }
}

/// JSON as Go writes it: sorted keys, and `<`, `>`, `&` and two line separators escaped.
fn write(value: &Value, out: &mut String) {
    let quoted = |text: &str, out: &mut String| {
        for c in Value::from(text).to_string().chars() {
            match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    out.push_str(&format!("\\u{:04x}", u32::from(c)))
                }
                c => out.push(c),
            }
        }
    };
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            for (i, (key, value)) in fields.into_iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                quoted(key, out);
                out.push(':');
                write(value, out);
            }
            out.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                out.push(if i == 0 { '[' } else { ',' });
                write(item, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::String(text) => quoted(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// The merge patch that brings `current` to what `modified` says; nothing if it is there already.
pub(crate) fn patch(original: &Value, modified: &Value, current: &Value) -> Option<Value> {
    match (modified, current) {
        (Value::Object(modified), Value::Object(current)) => {
            let patch = fields(original.as_object(), modified, current);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        // A server adds defaults inside lists, too. They are no reason to send the list again.
        (Value::Array(_), Value::Array(_)) if original == modified && covers(current, modified) => None,
        _ => (modified != current).then(|| modified.clone()),
    }
}

fn fields(
    original: Option<&Map<String, Value>>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in modified {
        let before = original.and_then(|original| original.get(key)).unwrap_or(&Value::Null);
        // In a merge patch null means: take it out.
        let change = match current.get(key) {
            None if value.is_null() => None,
            None => Some(value.clone()),
            Some(now) => self::patch(before, value, now),
        };
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    for key in original.into_iter().flat_map(Map::keys) {
        if !modified.contains_key(key) && current.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    patch
}

/// True when everything that `wanted` says is so in `there`.
fn covers(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|now| covers(now, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(now, value)| covers(now, value))
        }
        _ => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_note_is_what_kubectl_would_write() {
        let manifest = json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "b": "<&>", "a": "1" },
                               "metadata": { "namespace": "n", "name": "c" } });
        let noted = with_note(&manifest);
        let note = noted["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
        assert_eq!(
            note,
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\
             \"metadata\":{\"annotations\":{},\"name\":\"c\",\"namespace\":\"n\"}}\n"
        );
        assert_eq!(with_note(&noted), noted, "the note is not noted");
        assert_eq!(last_applied(&noted).unwrap()["data"]["b"], "<&>");
    }

    #[test]
    fn three_ways_decide_what_changes() {
        let cases = [
            ("added", json!({}), json!({ "a": 1 }), json!({}), Some(json!({ "a": 1 }))),
            ("same", json!({ "a": 1 }), json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), None),
            (
                "taken out",
                json!({ "a": 1, "b": 2 }),
                json!({ "a": 1 }),
                json!({ "a": 1, "b": 2 }),
                Some(json!({ "b": null })),
            ),
            ("gone already", json!({ "b": 2 }), json!({}), json!({}), None),
            ("somebody else's", json!({}), json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), None),
            ("drifted", json!({ "a": 1 }), json!({ "a": 1 }), json!({ "a": 3 }), Some(json!({ "a": 1 }))),
            (
                "deep",
                json!({ "m": { "x": 1, "y": 1 } }),
                json!({ "m": { "x": 2 } }),
                json!({ "m": { "x": 1, "y": 1, "z": 1 } }),
                Some(json!({ "m": { "x": 2, "y": null } })),
            ),
            (
                "list with defaults",
                json!({ "l": [{ "n": 1 }] }),
                json!({ "l": [{ "n": 1 }] }),
                json!({ "l": [{ "n": 1, "d": 0 }] }),
                None,
            ),
            (
                "list changed",
                json!({ "l": [{ "n": 1, "m": 1 }] }),
                json!({ "l": [{ "n": 1 }] }),
                json!({ "l": [{ "n": 1, "m": 1 }] }),
                Some(json!({ "l": [{ "n": 1 }] })),
            ),
            ("null", json!({}), json!({ "a": null }), json!({ "a": 1 }), Some(json!({ "a": null }))),
            (
                "type changed",
                json!({ "a": { "b": 1 } }),
                json!({ "a": 1 }),
                json!({ "a": { "b": 1 } }),
                Some(json!({ "a": 1 })),
            ),
        ];
        for (what, original, modified, current, expected) in cases {
            assert_eq!(patch(&original, &modified, &current), expected, "{what}");
        }
    }
}
