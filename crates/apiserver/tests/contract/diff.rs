//! Where two answers differ, one line per place.

use serde_json::Value;

/// Places where `found` is not `expected`.
pub(crate) fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk(expected, found, "", &mut lines);
    lines
}

fn walk(expected: &Value, found: &Value, path: &str, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let mut keys: Vec<&String> = expected.keys().chain(found.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}/{key}");
                match (expected.get(key), found.get(key)) {
                    (Some(expected), Some(found)) => walk(expected, found, &path, lines),
                    (Some(expected), None) => lines.push(format!("{path}: missing {expected}")),
                    (None, Some(found)) => lines.push(format!("{path}: should not have {found}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
            let (mut wanted, mut items) = (wanted.clone(), items.clone());
            if path.ends_with("/managedFields") {
                wanted.sort_by_key(owner);
                items.sort_by_key(owner);
            }
            for (index, (expected, found)) in wanted.iter().zip(&items).enumerate() {
                walk(expected, found, &format!("{path}/{index}"), lines);
            }
        }
        _ if expected == found => {}
        _ => lines.push(format!("{path}:\n      real {expected}\n      ours {found}")),
    }
}

/// Owners are listed by the second they last wrote in: requests that follow each other may share it or not.
fn owner(entry: &Value) -> String {
    ["operation", "manager", "subresource", "apiVersion"].map(|field| entry[field].to_string()).join(" ")
}

#[test]
fn each_place_is_named() {
    let (a, b) =
        (serde_json::json!({"x": [1, {"y": 2}], "z": 1}), serde_json::json!({"x": [1, {"y": 3}], "w": 1}));
    let lines = differences(&a, &b);
    assert_eq!(lines.len(), 3);
    assert!(lines[1].starts_with("/x/1/y:"), "{lines:?}");
    assert!(differences(&a, &a).is_empty());
}
