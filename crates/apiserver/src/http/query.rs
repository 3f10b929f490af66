//! Query parameters, as forgiving as clients need and as strict as the API is.

use percent_encoding::percent_decode_str;

use crate::failure::Failure;
use crate::rules::admit::Strictness;

#[derive(Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

impl Query {
    /// Empty pairs (`?&limit=500`) are skipped.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (decode(key), decode(value)))
            .collect();
        Self { pairs }
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

    /// A resource version: nothing, or a number.
    pub(crate) fn revision(&self) -> Result<Option<u64>, Failure> {
        match self.get("resourceVersion") {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}"))),
        }
    }

    /// Whether the request must not change anything.
    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Failure::unprocessable(format!(
                "dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }

    pub(crate) fn strictness(&self) -> Result<Strictness, Failure> {
        match self.get("fieldValidation") {
            "" | "Warn" => Ok(Strictness::Warn),
            "Ignore" => Ok(Strictness::Ignore),
            "Strict" => Ok(Strictness::Strict),
            other => Err(Failure::unprocessable(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
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
        let query = Query::parse("&limit=500&&labelSelector=a%20in+%28b%29&watch&x=%ff");
        assert_eq!(query.get("limit"), "500");
        assert_eq!(query.get("labelSelector"), "a in (b)");
        assert!(query.has("watch") && !query.flag("watch"));
        assert!(query.number("labelSelector").is_err());
    }
}
