//! Query parameters, as forgiving as clients need and as strict as the API is.

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::failure::{Cause, Failure};
use crate::rules::admit::Strictness;

#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    /// What the parameters of this verb are called when they are wrong.
    options: &'static str,
}

/// The kind of the options of a verb.
fn options(method: &Method) -> &'static str {
    match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "ListOptions",
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

impl Query {
    /// Empty pairs (`?&limit=500`) are skipped.
    pub(crate) fn parse(query: &str, method: &Method) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (decode(key), decode(value)))
            .collect();
        Self { pairs, options: options(method) }
    }

    fn invalid(&self, cause: Cause) -> Failure {
        Failure::invalid_kind(self.options, "meta.k8s.io", "", vec![cause])
    }

    /// A parameter; empty when it is missing, which means the same everywhere.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.pairs.iter().find(|(k, _)| k == key).map_or("", |(_, value)| value)
    }

    /// Every value of a parameter that may be given more than once.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|(k, _)| k == key)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        ["true", "1", "True", "t"].contains(&self.get(key))
    }

    /// A flag of the older kind: anything but a no is a yes.
    pub(crate) fn switch(&self, key: &str) -> bool {
        self.has(key) && !["", "false", "0"].contains(&self.get(key).to_ascii_lowercase().as_str())
    }

    /// A number that has to be one if it is there at all.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, Failure> {
        if !self.has(key) {
            return Ok(None);
        }
        let text = self.get(key);
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let far = matches!(error.kind(), PosOverflow | NegOverflow);
            let why = if far { "value out of range" } else { "invalid syntax" };
            Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Failure> {
        self.parsed(key)
    }

    fn parsed<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, Failure> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            }),
        }
    }

    /// A resource version: nothing, or a number; or what is wrong with it.
    pub(crate) fn revision(&self) -> Result<Option<u64>, String> {
        match self.get("resourceVersion") {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
                format!("resourceVersion: Invalid value: {text:?}: {why}")
            }),
        }
    }

    /// The resource version of a list or watch.
    pub(crate) fn list_revision(&self) -> Result<Option<u64>, Failure> {
        self.revision().map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))
    }

    /// Whether the request must not change anything.
    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                Err(self.invalid(Cause::unsupported("dryRun", json!([other]), "supported values: \"All\"")))
            }
        }
    }

    pub(crate) fn strictness(&self) -> Result<Strictness, Failure> {
        match self.get("fieldValidation") {
            "" | "Warn" => Ok(Strictness::Warn),
            "Ignore" => Ok(Strictness::Ignore),
            "Strict" => Ok(Strictness::Strict),
            other => {
                let supported = "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
                Err(self.invalid(Cause::unsupported("fieldValidation", other, supported)))
            }
        }
    }

    /// Makes a watch of what did not say so itself.
    pub(crate) fn set_watch(&mut self) {
        self.pairs.retain(|(key, _)| key != "watch");
        self.pairs.push(("watch".into(), "true".into()));
    }

    /// Narrows a watch on one object to that object.
    pub(crate) fn select_name(&mut self, name: &str) {
        self.pairs.retain(|(key, _)| key != "fieldSelector");
        self.pairs.push(("fieldSelector".into(), format!("metadata.name={name}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_queries_are_read() {
        let query = Query::parse("&limit=500&&labelSelector=a%20in+%28b%29&watch&x=%ff", &Method::GET);
        assert_eq!(query.get("limit"), "500");
        assert_eq!(query.get("labelSelector"), "a in (b)");
        assert!(query.has("watch") && !query.flag("watch"));
        assert!(query.number("labelSelector").is_err());
    }
}
