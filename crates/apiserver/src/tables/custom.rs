//! Columns of custom resources, as their definitions ask for them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::jsonpath::JsonPath;
use super::read::{human, text};

/// The columns beside the name, and their definitions with it.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    definitions: Box<str>,
}

#[derive(Debug)]
struct Column {
    kind: String,
    path: JsonPath,
}

impl Columns {
    /// Of a definition's version. From the first path that is not understood on there are no columns.
    pub(crate) fn of(version: &Value) -> Self {
        let given = version.get("additionalPrinterColumns").and_then(Value::as_array);
        match given.filter(|columns| !columns.is_empty()) {
            Some(columns) => Self::new(columns),
            None => Self::new(&[super::created_column()]),
        }
    }

    /// Of a `Scale`.
    pub(super) fn of_scale() -> Self {
        let column = |name: &str, what: &str, path: &str| json!({"name": name, "type": "integer", "description": what, "jsonPath": path});
        Self::new(&[
            column("Desired", "Number of desired replicas", ".spec.replicas"),
            column("Available", "Number of actual replicas", ".status.replicas"),
            super::created_column(),
        ])
    }

    fn new(given: &[Value]) -> Self {
        let mut definitions = vec![super::name_column()];
        let mut columns = Vec::new();
        for column in given {
            let path = text(column, "jsonPath");
            let Some(parsed) = JsonPath::parse(path) else { break };
            let description = match text(column, "description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                description => description.to_owned(),
            };
            definitions.push(json!({
                "name": text(column, "name"), "type": text(column, "type"), "format": text(column, "format"),
                "description": description, "priority": column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            }));
            columns.push(Column { kind: text(column, "type").to_owned(), path: parsed });
        }
        Self { columns, definitions: Value::from(definitions).to_string().into() }
    }

    /// The definitions as JSON.
    pub(super) fn definitions(&self) -> &str {
        &self.definitions
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = Value::from(text(object, "metadata.name"));
        let rest = self.columns.iter().map(|column| column.cell(object, now));
        std::iter::once(name).chain(rest).collect()
    }
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.find(object) else {
            return Value::Null;
        };
        match (self.kind.as_str(), value) {
            ("string", value) => printed(value).into(),
            ("integer", Value::Number(number)) => whole(number),
            ("number", Value::Number(number)) => number.as_f64().into(),
            ("boolean", Value::Bool(flag)) => (*flag).into(),
            ("date", Value::String(time)) => date(time, now).into(),
            _ => Value::Null,
        }
    }
}

/// A number without its fraction.
fn whole(number: &serde_json::Number) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "the fraction is meant to go; a cast saturates")]
    let rounded = || number.as_f64().map(|float| float as i64);
    number.as_i64().or_else(rounded).into()
}

fn date(time: &str, now: Timestamp) -> String {
    match time {
        "" | "null" => "<unknown>".into(),
        time => time.parse().map_or_else(|_| "<invalid>".into(), |then| human(then, now)),
    }
}

/// A value in a column of texts.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".into(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Very large and very small numbers have an exponent of two digits.
fn float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let object = json!({
            "metadata": {"name": "a"}, "s": "x", "i": 3, "f": 2.5, "big": 1e21, "b": true, "n": null,
            "list": [1, "2"], "t": "2026-01-01T00:00:00Z",
        });
        for (kind, path, expected) in [
            ("string", ".s", json!("x")),
            ("string", ".i", json!("3")),
            ("string", ".f", json!("2.5")),
            ("string", ".big", json!("1e+21")),
            ("string", ".list", json!("[1,\"2\"]")),
            ("string", ".missing", Value::Null),
            ("integer", ".i", json!(3)),
            ("integer", ".f", json!(2)),
            ("integer", ".s", Value::Null),
            ("number", ".f", json!(2.5)),
            ("number", ".i", json!(3.0)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".s", Value::Null),
            ("date", ".t", json!("10m")),
            ("date", ".s", json!("<invalid>")),
            ("date", ".i", Value::Null),
        ] {
            let version =
                json!({"additionalPrinterColumns": [{"name": "X", "type": kind, "jsonPath": path}]});
            assert_eq!(Columns::of(&version).cells(&object, now), [json!("a"), expected], "{kind} {path}");
        }
    }

    #[test]
    fn columns_end_where_a_path_is_no_path() {
        let column = |path: &str| json!({"name": "X", "type": "string", "jsonPath": path});
        let version = json!({"additionalPrinterColumns": [column(".a"), column(".b["), column(".c")]});
        let columns = Columns::of(&version);
        assert_eq!(columns.cells(&json!({}), Timestamp::UNIX_EPOCH).len(), 2);
        assert!(columns.definitions().contains("(in JSONPath format): .a"));
    }
}
