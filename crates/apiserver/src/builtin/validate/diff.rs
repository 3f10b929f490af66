//! What differs between two values, for the message that refuses a change.

use serde_json::Value;

/// The changed members, one per line, old with `-` and new with `+`.
pub(super) fn changes(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    compare("", old, new, &mut lines);
    lines.join("\n")
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let null = Value::Null;
            let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&below, before.get(key).unwrap_or(&null), after.get(key).unwrap_or(&null), lines);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), before, after, lines);
            }
        }
        _ => {
            lines.push(format!("- {path}: {old}"));
            lines.push(format!("+ {path}: {new}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_told() {
        let old = json!({"a": 1, "b": [{"c": 1, "d": 2}]});
        let new = json!({"a": 1, "b": [{"c": 3, "d": 2}]});
        assert_eq!(changes(&old, &new), "- b[0].c: 1\n+ b[0].c: 3");
    }
}
