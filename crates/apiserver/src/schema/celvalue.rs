//! JSON values as CEL sees them, typed by their schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_cel::cel;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use super::format::{Format, decode_base64};
use super::node::{Additional, Kind, Node, visible_metadata};

/// Which members of an object its rules look at. Converting nothing else is most of the speed of CEL here: a rule at
/// the root of a job must not cost a copy of the whole pod template.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Needs {
    All,
    Only(HashSet<String>),
}

impl Needs {
    fn wants(&self, escaped: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(escaped),
        }
    }
}

/// Converts a value for the rules of its node. `resource` is true at the root of an object.
pub(super) fn convert(node: &Node, value: &Value, needs: &Needs, resource: bool) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(number) => match (node.kind, number.as_i64(), number.as_u64()) {
            (Some(Kind::Number), _, _) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
            (_, Some(int), _) => Cel::Int(int),
            (_, None, Some(uint)) => Cel::UInt(uint),
            (_, None, None) => float(node, number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => string(node, text),
        Value::Array(list) => {
            let item = |item: &Value| match &node.items {
                Some(node) => convert(node, item, &Needs::All, node.embedded),
                None => raw(item),
            };
            Cel::List(Arc::new(list.iter().map(item).collect()))
        }
        Value::Object(object) => {
            let mut map = HashMap::new();
            for (name, child) in object {
                if let Some(property) = node.properties.get(name) {
                    let escaped = escape(name);
                    let bare = is_reserved(name) && needs.wants(name);
                    if bare || needs.wants(&escaped) {
                        let value = convert(property, child, &Needs::All, property.embedded);
                        if bare {
                            map.insert(key(name.clone()), value.clone());
                        }
                        map.insert(key(escaped), value);
                    }
                } else if resource && matches!(name.as_str(), "apiVersion" | "kind") {
                    map.insert(key(name.clone()), raw(child));
                } else if let Additional::Schema(schema) = &node.additional {
                    map.insert(key(name.clone()), convert(schema, child, &Needs::All, schema.embedded));
                } else if !resource && (node.preserve || matches!(node.additional, Additional::Any)) {
                    map.insert(key(name.clone()), raw(child));
                }
            }
            // Only this much of the metadata is promised to rules, whatever the object carries.
            if resource && needs.wants("metadata") {
                let metadata = object.get("metadata").map(visible_metadata).unwrap_or_default();
                map.insert(key("metadata".to_owned()), raw(&Value::Object(metadata)));
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

/// A value without a schema.
pub(super) fn raw(value: &Value) -> Cel {
    convert(&Node { preserve: true, ..Node::default() }, value, &Needs::All, false)
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

/// A whole float where the schema wants an integer is that integer.
#[expect(clippy::cast_possible_truncation, reason = "guarded: whole and below 2^53")]
fn float(node: &Node, float: f64) -> Cel {
    let whole = float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
    if node.kind == Some(Kind::Integer) && whole { Cel::Int(float as i64) } else { Cel::Float(float) }
}

/// Texts with a format are timestamps, durations and bytes in CEL. One that does not parse stays a text: the format
/// check has reported it.
fn string(node: &Node, text: &str) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let format = node.checks.as_ref().and_then(|checks| checks.format.as_ref()).map(|(_, format)| *format);
    match format {
        Some(Format::DateTime) => {
            cel::functions::timestamp(Arc::new(text.to_owned())).unwrap_or_else(|_| plain())
        }
        Some(Format::Date) => {
            cel::functions::timestamp(Arc::new(format!("{text}T00:00:00Z"))).unwrap_or_else(|_| plain())
        }
        Some(Format::Duration) => {
            cel::functions::duration(Arc::new(text.to_owned())).unwrap_or_else(|_| plain())
        }
        Some(Format::Byte) => decode_base64(text).map_or_else(plain, |bytes| Cel::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

/// Words of the language. A property of such a name can be written escaped or as it is.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name under which a property is reachable in CEL: reserved words and some characters are escaped.
pub(super) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, escaped) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("namespace", "__namespace__"),
            ("int", "int"),
        ] {
            assert_eq!(escape(name), escaped);
        }
    }
}
