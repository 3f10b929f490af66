//! Values as Go prints them: what errors about strategic patches quote.

use serde_json::Value;

/// A value as `%v` shows it.
pub(crate) fn go_text(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(go_text).collect())),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", list(members.collect()))
        }
    }
}

/// The type of a value, as `reflect` names it.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
