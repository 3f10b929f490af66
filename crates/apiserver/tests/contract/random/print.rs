//! A row as YAML, to be pasted into `rows/`.

use serde_json::{Map, Value, json};

use crate::row::{Row, Step};

pub(super) fn row(row: &Row) -> String {
    let mut text = format!("- name: {}\n", row.name);
    if row.account {
        text.push_str("  account: true\n");
    }
    let requests: String = row.requests.iter().map(|step| flow(&members(step))).collect();
    let used = |name: &str| requests.contains(&format!("${{{name}}}"));
    let given: Map<String, Value> = row
        .given
        .iter()
        .filter(|(name, _)| used(name))
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    if !given.is_empty() {
        text.push_str(&format!("  given: {}\n", flow(&Value::Object(given))));
    }
    text.push_str("  requests:\n");
    for step in &row.requests {
        text.push_str(&format!("  - {}\n", flow(&members(step))));
    }
    text
}

/// The members of a request that are set.
fn members(step: &Step) -> Value {
    let all = [
        ("do", json!(step.r#do)),
        ("patch", json!(step.patch)),
        ("type", json!(step.r#type)),
        ("accept", json!(step.accept)),
        ("open", json!(step.open)),
        ("read", json!(step.read)),
        ("through", json!(step.through)),
        ("collected", if step.collected { json!(true) } else { Value::Null }),
        ("keep", json!(step.keep)),
        ("kept", json!(step.kept)),
        ("save", if step.save.is_empty() { Value::Null } else { json!(step.save) }),
        ("body", step.body.clone().unwrap_or_default()),
    ];
    let set = all.into_iter().filter(|(_, value)| !value.is_null() && *value != json!(""));
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// YAML in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(key, child)| format!("{}: {}", word(key), flow(child))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// Text without quotes where nothing else could be meant.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./~ ".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !text.ends_with(' ')
        && text.chars().all(plain)
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_word { text.to_owned() } else { Value::from(text).to_string() }
}

#[test]
fn what_is_printed_can_be_read() {
    let body = json!({"metadata": {"name": "a"}, "x": ["1", 1, null, "", "a b", "a: b", "~"], "y": "true", "$patch": "n"});
    let given = std::collections::BTreeMap::new();
    let step = Step { r#do: "PATCH ~/pods/a?x=y".into(), body: Some(body.clone()), ..Step::default() };
    let printed =
        row(&Row { name: "r".into(), account: true, given, requests: vec![step], theme: String::new() });
    let read: Vec<Row> = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!(read[0].requests[0].body, Some(body));
}
