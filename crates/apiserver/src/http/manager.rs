//! Whose name is on what a request writes.

use http::HeaderMap;
use http::header::USER_AGENT;

use super::query::Query;
use crate::failure::{Cause, Failure};

/// The longest name of an owner, in bytes.
const LONGEST: usize = 128;

fn is_printable(c: char) -> bool {
    let is_hidden = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_hidden)
}

/// The program that sent a request: what its `User-Agent` says before the version.
pub(super) fn from_agent(headers: &HeaderMap) -> String {
    let agent =
        headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default();
    let mut name = String::new();
    for c in agent.split('/').next().unwrap_or_default().chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > LONGEST {
            break;
        }
        name.push(c);
    }
    name
}

/// Checks the name a request gives. `kind` is how its options are called.
pub(super) fn check(query: &Query, kind: &str) -> Result<(), Failure> {
    refuse(kind, wrong(query.get("fieldManager")))
}

/// The same for patches that are no configurations.
pub(super) fn check_patch(query: &Query) -> Result<(), Failure> {
    let forced = query.has("force");
    let forced = forced.then(|| Cause::forbidden("force", "may not be specified for non-apply patch"));
    refuse("PatchOptions", forced.into_iter().chain(wrong(query.get("fieldManager"))).collect())
}

/// The same for configurations, which are nothing without an owner.
pub(super) fn check_apply(query: &Query) -> Result<(), Failure> {
    let manager = query.get("fieldManager");
    let missing = manager.is_empty().then(|| Cause::required("fieldManager", "is required for apply patch"));
    refuse("PatchOptions", missing.into_iter().chain(wrong(manager)).collect())
}

fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), Failure> {
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_kind(kind, "meta.k8s.io", "", causes)) }
}

fn wrong(manager: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if manager.len() > LONGEST {
        causes.push(Cause::too_long("fieldManager", LONGEST));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let mut cause = Cause::invalid("fieldManager", manager, "");
        cause.message = format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {at})",
            quoted(manager),
            u32::from(c)
        );
        causes.push(cause);
    }
    causes
}

/// A text as Go quotes it.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if c.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_the_name_before_the_slash() {
        for (agent, name) in [
            ("kubectl/v1.36.3 (linux/amd64)", "kubectl"),
            ("Mozilla 5", "Mozilla 5"),
            ("/x", ""),
            ("a\tb/1", "ab"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, agent.parse().unwrap());
            assert_eq!(from_agent(&headers), name);
        }
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, "x".repeat(200).parse().unwrap());
        assert_eq!(from_agent(&headers).len(), LONGEST);
        assert_eq!(from_agent(&HeaderMap::new()), "");
    }
}
