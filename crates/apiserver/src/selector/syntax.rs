//! What a label key and a label value may look like.

use super::SelectorError;

/// Longest name part of a key, and longest value.
const NAME_MAX: usize = 63;
/// Longest DNS prefix of a key.
const PREFIX_MAX: usize = 253;

const NAME_HELP: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_HELP: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX_HELP: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks `prefix/name` or `name`.
pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let wrong = if name.contains('/') {
        format!(
            "a valid label key {NAME_HELP} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    } else if prefix == Some("") {
        "prefix part must be non-empty".to_owned()
    } else if prefix.is_some_and(|p| p.len() > PREFIX_MAX) {
        format!("prefix part must be no more than {PREFIX_MAX} bytes")
    } else if prefix.is_some_and(|p| !is_subdomain(p)) {
        format!("prefix part {PREFIX_HELP}")
    } else if name.is_empty() {
        "name part must be non-empty".to_owned()
    } else if name.len() > NAME_MAX {
        format!("name part must be no more than {NAME_MAX} bytes")
    } else if !is_qualified(name) {
        format!("name part {NAME_HELP}")
    } else {
        return Ok(());
    };
    Err(SelectorError::new(format!("<nil>: Invalid value: {key:?}: {wrong}")))
}

/// Checks a label value; `path` says where it stands in the error (`values[0][app]`).
pub(super) fn check_value(path: &str, value: &str) -> Result<(), SelectorError> {
    let wrong = if value.len() > NAME_MAX {
        format!("must be no more than {NAME_MAX} bytes")
    } else if !value.is_empty() && !is_qualified(value) {
        VALUE_HELP.to_owned()
    } else {
        return Ok(());
    };
    Err(SelectorError::new(format!("{path}: Invalid value: {value:?}: {wrong}")))
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(edge)
            && bytes.last().is_some_and(edge)
            && bytes.iter().all(|b| edge(b) || *b == b'-')
    })
}
