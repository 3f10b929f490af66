//! What differs from run to run (identities, versions, times) becomes a symbol; everything else stays, to the letter.

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A time this near to now was made by a server; others are part of a row.
const NEAR: SignedDuration = SignedDuration::from_hours(72);

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).unwrap());
    };
}

pattern!(UID, r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
pattern!(TIME, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z");
pattern!(CLUSTER_IP, r"\b10\.96\.\d+\.\d+\b");
pattern!(ADDRESS, r"\b(127\.0\.0\.1|192\.0\.2\.1):\d+\b");
pattern!(MOUNT, r"kube-api-access-[a-z0-9]{5}\b");
pattern!(JWT, r"\beyJ[\w-]+\.[\w-]+\.[\w-]+");
// An error may quote the whole object, in the order of a Go struct's fields.
pattern!(QUOTED, r#"Invalid value: "\{\\?"apiVersion.*\}""#);
pattern!(AGE, r"^\d+s$");
pattern!(
    TEXT_VERSION,
    r#"(?x)(?P<before>resource\ version:\ \d+\ \(|, current:\ |ResourceVersion\ in\ precondition:\ |ResourceVersion\ in\ object\ meta:\ |ResourceVersion\ in\ record\ \(|"resourceVersion\\?":\\?")\d+"#
);

/// The symbols of one row.
#[derive(Default)]
pub(crate) struct Normal {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<u64, usize>,
    generated: Vec<(String, String)>,
}

/// What the metadata around a version belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Object,
    /// A list or a bookmark: its version is that of the whole store, which others write to as well.
    Store,
}

impl Normal {
    pub(crate) fn value(&mut self, value: &mut Value) {
        self.walk(value, "", Of::Object);
    }

    fn walk(&mut self, value: &mut Value, key: &str, of: Of) {
        match value {
            Value::Object(map) => {
                let of = if is_store(map) {
                    Of::Store
                } else if key == "metadata" {
                    of
                } else {
                    Of::Object
                };
                self.learn(map);
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort();
                let bookmark = map.get("type") == Some(&Value::from("BOOKMARK"));
                for key in keys {
                    if let Some(child) = map.get_mut(&key) {
                        let of = if bookmark && key == "object" { Of::Store } else { of };
                        self.member(child, &key, of);
                    }
                }
            }
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.walk(item, key, Of::Object));
                // Their order follows their times, and a second may pass between two requests or not.
                if key == "managedFields" {
                    items.sort_by_key(Value::to_string);
                }
            }
            Value::String(text) => *text = self.text(text, key, of),
            Value::Number(_) if ["nodePort", "healthCheckNodePort"].contains(&key) => {
                *value = "<port>".into()
            }
            Value::Number(number) if number.as_i64().is_some_and(is_near_seconds) => *value = "<time>".into(),
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    fn member(&mut self, child: &mut Value, key: &str, of: Of) {
        match key {
            // A bookmark's object has no list in it to be told by.
            "object" if of == Of::Store => {
                if let Some(metadata) = child.get_mut("metadata") {
                    self.walk(metadata, "metadata", Of::Store);
                }
            }
            "continue" if child.is_string() && child != "" => *child = "<continue>".into(),
            "serverAddress" => *child = "<address>".into(),
            _ => self.walk(child, key, of),
        }
    }

    /// Generated names are replaced wherever they appear from here on.
    fn learn(&mut self, map: &serde_json::Map<String, Value>) {
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
        let (prefix, name) = (text("generateName"), text("name"));
        let is_new = !self.generated.iter().any(|(known, _)| known == name);
        if !prefix.is_empty() && is_new && name.len() == prefix.len() + 5 && name.starts_with(prefix) {
            let symbol = format!("{prefix}<suffix-{}>", self.generated.len() + 1);
            self.generated.push((name.to_owned(), symbol));
        }
    }

    fn text(&mut self, text: &str, key: &str, of: Of) -> String {
        if key == "resourceVersion" {
            return text.parse().map_or_else(|_| text.to_owned(), |version| self.version(version, of));
        }
        let mut text = text.to_owned();
        for (name, symbol) in &self.generated {
            text = text.replace(name, symbol);
        }
        let text = UID.replace_all(&text, |found: &Captures<'_>| self.uid(&found[0]));
        let text = TIME.replace_all(&text, |found: &Captures<'_>| time(&found[0]));
        let text = CLUSTER_IP.replace_all(&text, "<cluster-ip>");
        let text = ADDRESS.replace_all(&text, "<address>");
        let text = MOUNT.replace_all(&text, "kube-api-access-<suffix>");
        let text = JWT.replace_all(&text, "<token>");
        let text = TEXT_VERSION.replace_all(&text, "${before}<version>");
        let text = QUOTED.replace_all(&text, "Invalid value: <object>");
        let text = if key == "cells" { AGE.replace_all(&text, "<age>") } else { text };
        text.into_owned()
    }

    fn uid(&mut self, uid: &str) -> String {
        let next = self.uids.len() + 1;
        format!("<uid-{}>", self.uids.entry(uid.to_owned()).or_insert(next))
    }

    /// Equal versions get equal symbols, and a later symbol says whether it is newer than all before.
    fn version(&mut self, version: u64, of: Of) -> String {
        let newest = self.versions.keys().next_back().copied().unwrap_or(0);
        if version == 0 {
            return "0".into();
        }
        if of == Of::Store {
            return if version >= newest { "<current>" } else { "<past>" }.into();
        }
        if let Some(known) = self.versions.get(&version) {
            return format!("<version-{known}>");
        }
        let next = self.versions.len() + 1;
        self.versions.insert(version, next);
        if version > newest { format!("<version-{next}>") } else { format!("<version-{next}, older>") }
    }
}

fn is_store(map: &serde_json::Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") || kind == "Table"
}

fn is_near(time: Timestamp) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a real server cannot be given another clock")]
    let now = Timestamp::now();
    time.duration_since(now).abs() < NEAR
}

fn is_near_seconds(seconds: i64) -> bool {
    Timestamp::from_second(seconds).is_ok_and(is_near)
}

fn time(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) if is_near(time) => {
            let digits = text.split_once('.').map_or(0, |(_, rest)| rest.len() - 1);
            if digits == 0 { "<time>".into() } else { format!("<time, {digits} digits>") }
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn normal(mut value: Value) -> Value {
        Normal::default().value(&mut value);
        value
    }

    #[test]
    fn owners_of_fields_come_in_one_order() {
        let owners = |names: [&str; 2]| json!({"managedFields": names.map(|name| json!({"manager": name}))});
        assert_eq!(normal(owners(["b", "a"])), normal(owners(["a", "b"])));
    }

    #[test]
    fn versions_keep_their_order() {
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let list = json!([object("7"), object("9"), object("7"), object("8")]);
        let found = normal(list);
        let symbols: Vec<&str> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["metadata"]["resourceVersion"].as_str().unwrap())
            .collect();
        assert_eq!(symbols, ["<version-1>", "<version-2>", "<version-1>", "<version-3, older>"]);
        let list = json!({"kind": "PodList", "items": [object("7")], "metadata": {"resourceVersion": "9"}});
        assert_eq!(normal(list)["metadata"]["resourceVersion"], "<current>");
        let bookmark = json!({"type": "BOOKMARK", "object": object("7")});
        assert_eq!(normal(bookmark)["object"]["metadata"]["resourceVersion"], "<current>");
    }

    #[test]
    fn names_and_times_of_a_server_are_symbols_and_those_of_a_row_stay() {
        let made = json!({"metadata": {"generateName": "a-", "name": "a-bcd45"}, "x": "pod a-bcd45"});
        assert_eq!(normal(made)["x"], "pod a-<suffix-1>");
        assert_eq!(normal(json!("2001-02-03T04:05:06Z")), "2001-02-03T04:05:06Z");
        #[expect(clippy::disallowed_methods, reason = "the test is about times near to now")]
        let now = Timestamp::now();
        assert_eq!(
            normal(json!(r#"Invalid value: "{\"apiVersion\":\"v1\"}": no"#)),
            "Invalid value: <object>: no"
        );
        assert_eq!(normal(json!(format!("{now:.0}"))), "<time>");
        assert_eq!(normal(json!(format!("{now:.6}"))), "<time, 6 digits>");
    }
}
