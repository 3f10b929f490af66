//! One step of a field path, in the spelling of FieldsV1: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:3`.
//!
//! Sets keep steps as these texts. A text is canonical (keys sorted, numbers and letters written in one way), so that
//! two steps are the same exactly if their texts are.

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt::Write as _;

/// The step to a member of an object.
pub(super) fn field(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 2);
    key.push_str("f:");
    key.push_str(name);
    key
}

/// The step to an item of a set.
pub(super) fn member(value: &Value) -> String {
    let mut key = "v:".to_owned();
    write(value, &mut key);
    key
}

/// The step to an item of a list by the fields that tell items apart, which come sorted by name.
pub(super) fn item<'v>(fields: impl Iterator<Item = (&'v str, &'v Value)>) -> String {
    let mut key = "k:{".to_owned();
    for (index, (name, value)) in fields.enumerate() {
        if index > 0 {
            key.push(',');
        }
        text(name, &mut key);
        key.push(':');
        write(value, &mut key);
    }
    key.push('}');
    key
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::String(value) => text(value, out),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // 80.0 and 80 are the same number, and other software reads them as such.
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
                let whole = float as i64;
                let _ = write!(out, "{whole}");
            }
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::Object(map) => {
            out.push('{');
            for (index, (name, value)) in sorted(map).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                text(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(value, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// A text as Go writes it: safe inside HTML.
fn text(value: &str, out: &mut String) {
    let plain = |c: u8| (0x20..0x80).contains(&c) && !b"\"\\<>&".contains(&c);
    if value.bytes().all(plain) {
        out.push('"');
        out.push_str(value);
        out.push('"');
        return;
    }
    let quoted = Value::from(value).to_string();
    for c in quoted.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = map.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members
}

/// Brings a step that somebody sent into its canonical form. Nothing for kinds of steps that are not known: they are
/// left out, as a server does that does not know them yet.
pub(super) fn canonical(key: &str) -> Result<Option<String>, String> {
    let Some((kind, rest)) = key.split_at_checked(2) else {
        return Err("key must be 2 characters long:".into());
    };
    if !kind.ends_with(':') {
        return Err(format!("missing colon: {key}"));
    }
    let json = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
    match kind {
        "f:" => Ok(Some(key.to_owned())),
        "v:" => Ok(Some(member(&json()?))),
        "k:" => match json()? {
            Value::Object(map) => {
                Ok(Some(item(sorted(&map).into_iter().map(|(name, value)| (name.as_str(), value)))))
            }
            _ => Err("expect { or n".into()),
        },
        "i:" => {
            let index: i64 =
                rest.parse().map_err(|_| format!("strconv.Atoi: parsing {rest:?}: invalid syntax"))?;
            Ok(Some(format!("i:{index}")))
        }
        _ => Ok(None),
    }
}

/// A step as people read it: `.name`, `[name="x"]`, `[="x"]`, `[3]`.
pub(super) fn show(key: &str) -> String {
    let Some((kind, rest)) = key.split_at_checked(2) else {
        return String::new();
    };
    match (kind, serde_json::from_str(rest)) {
        ("f:", _) => format!(".{rest}"),
        ("v:", Ok(value)) => format!("[={value}]"),
        ("k:", Ok(Value::Object(map))) => {
            let parts: Vec<String> =
                sorted(&map).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", parts.join(","))
        }
        _ => format!("[{rest}]"),
    }
}

/// The order in which steps are listed: fields, items by key, items by value, indexes; numbers by their size.
pub(super) fn order(a: &str, b: &str) -> Ordering {
    let rank = |key: &str| match key.get(..2) {
        Some("f:") => 0,
        Some("k:") => 1,
        Some("v:") => 2,
        _ => 3,
    };
    let value = |key: &str| serde_json::from_str::<Value>(key.get(2..).unwrap_or_default()).ok();
    rank(a).cmp(&rank(b)).then_with(|| match (rank(a), value(a), value(b)) {
        (1.., Some(left), Some(right)) => compare(&left, &right),
        _ => a.cmp(b),
    })
}

fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Object(a), Value::Object(b)) => {
            for ((left, x), (right, y)) in sorted(a).into_iter().zip(sorted(b)) {
                let order = left.cmp(right).then_with(|| compare(x, y));
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_have_one_spelling() {
        for (sent, kept) in [
            ("f:a", Some("f:a")),
            ("f:", Some("f:")),
            (r#"k:{"b": 80.0, "a":"x"}"#, Some(r#"k:{"a":"x","b":80}"#)),
            (r#"v:"a<b""#, Some(r#"v:"a\u003cb""#)),
            (r#"v:"a\u003cb""#, Some(r#"v:"a\u003cb""#)),
            ("v:1.5", Some("v:1.5")),
            ("v:true", Some("v:true")),
            ("i:03", Some("i:3")),
            ("x:1", None),
        ] {
            assert_eq!(canonical(sent).unwrap().as_deref(), kept, "{sent}");
        }
        for wrong in ["", "f", "fa", "é", "k:[]", "k:{", "v:", "i:x"] {
            assert!(canonical(wrong).is_err(), "{wrong}");
        }
        assert_eq!(member(&json!("a")), r#"v:"a""#);
        assert_eq!(member(&json!(2.0)), "v:2");
    }

    #[test]
    fn steps_are_shown_and_ordered() {
        for (key, shown) in [
            ("f:a", ".a"),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"x""#, r#"[="x"]"#),
            ("i:3", "[3]"),
        ] {
            assert_eq!(show(key), shown);
        }
        let sorted = ["f:a", "f:b", r#"k:{"p":80}"#, r#"k:{"p":443}"#, r#"k:{"p":"a"}"#, "v:1", "i:0"];
        let mut keys = sorted;
        keys.reverse();
        keys.sort_by(|a, b| order(a, b));
        assert_eq!(keys, sorted);
    }
}
