//! Objects as lists of fields: a path and a text each, so that a difference has a place.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

pub(crate) type Fields = BTreeMap<String, String>;

/// Fields that no two runs share, and that say nothing.
const DROPPED: [&str; 5] =
    ["managedFields", "creationTimestamp", "resourceVersion", "selfLink", "generation"];

/// Puts every field of a value under a path.
pub(crate) fn flatten(path: &str, value: &Value, into: &mut Fields) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !DROPPED.contains(&name.as_str())) {
                let below = format!("{path}/{}", name.replace('/', "|"));
                match (name.as_str(), value) {
                    ("uid", Value::String(_)) => drop(into.insert(below, "<uid>".into())),
                    _ => flatten(&below, value, into),
                }
            }
            if fields.is_empty() {
                into.insert(path.to_owned(), "{}".into());
            }
        }
        Value::Array(items) => match names_of(items) {
            Some(names) => {
                into.insert(format!("{path}/order"), names.join(" "));
                for (name, item) in names.iter().zip(items) {
                    flatten(&format!("{path}/{}", name.replace('/', "|")), item, into);
                }
            }
            None => {
                into.insert(format!("{path}/length"), items.len().to_string());
                for (index, item) in items.iter().enumerate() {
                    flatten(&format!("{path}/{index}"), item, into);
                }
            }
        },
        other => drop(into.insert(path.to_owned(), leaf(other))),
    }
}

/// What the items of a list are called, if they are called something; the second of a name gets a number.
fn names_of(items: &[Value]) -> Option<Vec<String>> {
    if items.is_empty() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for item in items {
        let name = item.get("name").or_else(|| item.get("type")).and_then(Value::as_str)?;
        let name = without_random(name);
        let same = names.iter().filter(|known| known.split('#').next() == Some(&name)).count();
        names.push(if same == 0 { name } else { format!("{name}#{same}") });
    }
    Some(names)
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(text) if is_time(text) => "<time>".into(),
        Value::String(text) => without_random(text),
        other => other.to_string(),
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T')
}

/// The API server gives the volume with a pod's token a random name.
fn without_random(text: &str) -> String {
    match text.strip_prefix("kube-api-access-") {
        Some(_) => "kube-api-access-<random>".into(),
        None => text.to_owned(),
    }
}

/// A path, or a name, with holes: `*` is a part between slashes, `**` anything.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let parts: Vec<String> = text
            .split("**")
            .map(|part| part.split('*').map(regex::escape).collect::<Vec<_>>().join("[^/]*"))
            .collect();
        Self(Regex::new(&format!("^{}$", parts.join(".*"))).unwrap())
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[test]
fn fields_have_paths_and_lists_have_an_order() {
    let mut fields = Fields::new();
    let value = serde_json::json!({
        "env": [{ "name": "A", "value": "1" }, { "name": "B" }, { "name": "A", "value": "2" }],
        "args": ["x"], "uid": "7", "resourceVersion": "8", "at": "2026-01-02T03:04:05Z",
    });
    flatten("pod", &value, &mut fields);
    let expected = [
        ("pod/args/0", "x"),
        ("pod/args/length", "1"),
        ("pod/at", "<time>"),
        ("pod/env/A#1/name", "A"),
        ("pod/env/A#1/value", "2"),
        ("pod/env/A/name", "A"),
        ("pod/env/A/value", "1"),
        ("pod/env/B/name", "B"),
        ("pod/env/order", "A B A#1"),
        ("pod/uid", "<uid>"),
    ];
    let expected: Fields = expected.map(|(path, value)| (path.into(), value.into())).into();
    assert_eq!(fields, expected);
}

#[test]
fn a_star_stays_between_slashes() {
    assert!(Pattern::new("pods/*/spec/**").matches("pods/a-0/spec/containers/x/env"));
    assert!(!Pattern::new("pods/*/spec").matches("pods/a/b/spec"));
    assert!(Pattern::new("job/status").matches("job/status"));
    assert!(!Pattern::new("job/status").matches("job/status/x"));
}
