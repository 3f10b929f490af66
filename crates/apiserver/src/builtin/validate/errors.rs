//! Where something is wrong, and what: collected in the order of a real server. A path is written only when it is
//! needed, since most objects are right.

use serde_json::Value;
use std::fmt;

use crate::failure::{Cause, MOST_CAUSES};
use crate::object::names::NameRule;

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    Root(&'a str),
    Field(&'a Self, &'a str),
    Index(&'a Self, usize),
    Key(&'a Self, &'a str),
}

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// What was found wrong: no more of it than an answer lists, and one more, so that the answer can say so.
#[derive(Debug, Default)]
pub(super) struct Errors {
    causes: Vec<Cause>,
    found: usize,
}

impl Errors {
    /// Notes a cause, which is made only if it is kept.
    fn push(&mut self, cause: impl FnOnce() -> Cause) {
        self.found += 1;
        if self.causes.len() <= MOST_CAUSES {
            self.causes.push(cause());
        }
    }

    /// How much was found, kept or not.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    pub(super) fn into_causes(self) -> Vec<Cause> {
        self.causes
    }

    pub(super) fn required(&mut self, path: &Path<'_>, why: &str) {
        self.push(|| Cause::required(path.to_string(), why));
    }

    pub(super) fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, why: &str) {
        self.push(|| Cause::invalid(path.to_string(), value, why));
    }

    /// For a value that is quoted otherwise than as JSON.
    pub(super) fn invalid_text(&mut self, path: &Path<'_>, value: &str, why: &str) {
        self.push(|| Cause::invalid_text(path.to_string(), value, why));
    }

    pub(super) fn forbidden(&mut self, path: &Path<'_>, why: &str) {
        self.push(|| Cause::forbidden(path.to_string(), why));
    }

    pub(super) fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.push(|| Cause::duplicate(path.to_string(), value));
    }

    /// For a value that is quoted otherwise than as JSON.
    pub(super) fn duplicate_text(&mut self, path: &Path<'_>, value: &str) {
        self.push(|| Cause::duplicate_text(path.to_string(), value));
    }

    pub(super) fn too_long(&mut self, field: &str, max: usize) {
        self.push(|| Cause::too_long(field, max));
    }

    pub(super) fn not_found(&mut self, path: &Path<'_>, value: &str) {
        self.push(|| Cause::not_found(path.to_string(), value));
    }

    pub(super) fn unsupported(&mut self, path: &Path<'_>, value: impl Into<Value>, known: &[&str]) {
        self.push(|| {
            let known: Vec<String> = known.iter().map(|value| format!("{value:?}")).collect();
            let known = format!("supported values: {}", known.join(", "));
            Cause::unsupported(path.to_string(), value, &known)
        });
    }

    /// For a value that is quoted otherwise than as JSON.
    pub(super) fn unsupported_text(&mut self, path: &Path<'_>, value: &str, known: &str) {
        self.push(|| Cause::unsupported_text(path.to_string(), value, known));
    }

    /// A value is one of a few.
    pub(super) fn one_of(&mut self, path: &Path<'_>, value: &str, known: &[&str]) {
        if !known.contains(&value) {
            self.unsupported(path, value, known);
        }
    }

    /// A number is not negative, if it is there.
    pub(super) fn not_negative(&mut self, path: &Path<'_>, number: Option<i64>) {
        if let Some(number) = number.filter(|number| *number < 0) {
            self.invalid(path, number, "must be greater than or equal to 0");
        }
    }

    pub(super) fn port(&mut self, path: &Path<'_>, number: i64) {
        if !(1..=65_535).contains(&number) {
            self.invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }

    pub(super) fn name(&mut self, path: &Path<'_>, rule: NameRule, name: &str) {
        for why in rule.check(name) {
            self.invalid(path, name, &why);
        }
    }

    /// Each of several complaints about one value.
    pub(super) fn all(&mut self, path: &Path<'_>, value: &str, complaints: &[String]) {
        for why in complaints {
            self.invalid(path, value, why);
        }
    }

    pub(super) fn address(&mut self, path: &Path<'_>, address: &str) {
        if address.parse::<std::net::IpAddr>().is_err() {
            self.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
}

/// A member that is there.
pub(super) fn get<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|found| !found.is_null())
}

/// A text, empty when it is missing.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

pub(super) fn flag(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn members<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = value.get(field).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

pub(super) fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(value, field).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_clients_know_it() {
        let root = Path::Root("spec");
        let list = root.field("containers");
        let item = list.index(2);
        let limits = item.field("limits");
        assert_eq!(limits.key("cpu").to_string(), "spec.containers[2].limits[cpu]");
    }
}
