//! What names, labels and annotations may look like, with the messages clients expect.

use serde_json::{Map, Value};

use crate::failure::Cause;

/// Which names a resource accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// DNS-1123 subdomain: most resources.
    Subdomain,
    /// DNS-1123 label: namespaces and services.
    Label,
    /// Anything that is one path segment: RBAC.
    Segment,
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
    'example.com/MyName')";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn dns_char(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(dns_char)
        && bytes.last().copied().is_some_and(dns_char)
        && bytes.iter().all(|c| dns_char(*c) || *c == b'-')
}

pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

fn longer(text: &str, max: usize, unit: &str) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} {unit}"))
}

impl NameRule {
    /// What is wrong with a name.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        let (max, valid, message) = match self {
            Self::Subdomain => (253, name.split('.').all(is_label), SUBDOMAIN),
            Self::Label if name.split('.').all(is_label) => (63, is_label(name), "must not contain dots"),
            Self::Label => (63, is_label(name), LABEL),
            Self::Segment => return segment(name),
        };
        longer(name, max, "characters").into_iter().chain((!valid).then(|| message.to_owned())).collect()
    }

    /// What is wrong with the beginning of a generated name: it may end in a dash, since something follows.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            Self::Segment if [".", ".."].contains(&prefix) => Vec::new(),
            Self::Segment => self.check(prefix),
            _ => match prefix.strip_suffix('-') {
                Some(rest) if !rest.is_empty() => self.check(&format!("{rest}a")),
                _ => self.check(prefix),
            },
        }
    }

    /// Where a generated name is cut so that the random end fits.
    pub(crate) fn generate_limit(self) -> usize {
        58
    }
}

/// What keeps a name from being a DNS-1035 label, as the names in definitions are.
pub(crate) fn label_1035(name: &str) -> Option<String> {
    let valid = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    let wrong: Vec<String> =
        longer(name, 63, "characters").into_iter().chain((!valid).then(|| LABEL_1035.to_owned())).collect();
    (!wrong.is_empty()).then(|| wrong.join(","))
}

/// What keeps a name from being one segment of a path.
fn segment(name: &str) -> Vec<String> {
    if [".", ".."].contains(&name) {
        return vec![format!("may not be '{name}'")];
    }
    let inside = ["/", "%"].into_iter().filter(|part| name.contains(part));
    inside.map(|part| format!("may not contain '{part}'")).collect()
}

/// What is wrong with the key of a label or annotation, or the name of a finalizer.
pub(crate) fn check_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".into());
            } else if !is_subdomain(prefix) {
                wrong.push(format!("prefix part {SUBDOMAIN}"));
            }
            *name
        }
        _ => return vec![QUALIFIED.into()],
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    } else if let Some(long) = longer(name, 63, "bytes") {
        wrong.push(format!("name part {long}"));
    }
    if !is_word(name) {
        wrong.push(KEY_NAME.into());
    }
    wrong
}

/// What is wrong with a label's value.
pub(crate) fn check_value(value: &str) -> Vec<String> {
    let shape = (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE.to_owned());
    longer(value, 63, "bytes").into_iter().chain(shape).collect()
}

/// Checks `metadata.labels`.
pub(crate) fn labels(labels: &Map<String, Value>, causes: &mut Vec<Cause>) {
    for (key, value) in labels {
        let field = "metadata.labels";
        causes.extend(check_key(key).iter().map(|why| Cause::invalid(field, key.as_str(), why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(check_value(value).iter().map(|why| Cause::invalid(field, value, why)));
    }
}

/// Checks `metadata.annotations`.
pub(crate) fn annotations(annotations: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations {
        let wrong = check_key(&key.to_lowercase());
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.annotations", key.as_str(), why)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "foregroundDeletion", "orphan"];

/// Checks `metadata.finalizers`. Built-in kinds take short names only from the server itself.
pub(crate) fn finalizers(names: &[&str], built_in: bool, causes: &mut Vec<Cause>) {
    let field = "metadata.finalizers";
    for name in names {
        causes.extend(check_key(name).iter().map(|why| Cause::invalid(field, *name, why)));
    }
    if ["orphan", "foregroundDeletion"].iter().all(|name| names.contains(name)) {
        let all = serde_json::json!(names);
        causes.push(Cause::invalid(field, all, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    for (index, name) in names.iter().enumerate().filter(|_| built_in) {
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("{field}[{index}]"), *name, why));
        }
    }
}

/// Checks `spec.finalizers` of a namespace.
pub(crate) fn namespace_finalizers(names: &[&str], causes: &mut Vec<Cause>) {
    for (index, name) in names.iter().enumerate() {
        let field = format!("spec.finalizers[{index}]");
        causes.extend(check_key(name).iter().map(|why| Cause::invalid(field.as_str(), *name, why)));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(field, *name, why));
        }
    }
}

/// What to say about finalizers that others could choose as well.
pub(crate) fn short_finalizers(names: &[&str]) -> Vec<String> {
    let short = names.iter().filter(|name| !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    let say = |name: &&str| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers"
        )
    };
    short.map(say).collect()
}

/// What is wrong with the key of a config map or a secret.
pub(crate) fn check_config_key(key: &str) -> Vec<String> {
    const SHAPE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
        'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut wrong: Vec<String> = longer(key, 253, "characters").into_iter().collect();
    if key.is_empty() || !key.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._".contains(&c)) {
        wrong.push(SHAPE.into());
    }
    match key {
        "." | ".." => wrong.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

/// What is wrong with a domain that names are looked up in: it may have underscores.
pub(crate) fn check_search(name: &str) -> Option<&'static str> {
    const SHAPE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
        '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part).as_bytes();
        part.first().copied().is_some_and(dns_char)
            && part.last().copied().is_some_and(dns_char)
            && part.iter().all(|c| dns_char(*c) || b"-_".contains(c))
    };
    (!name.split('.').all(is_part)).then_some(SHAPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rule() {
        for (rule, good, bad) in [
            (NameRule::Subdomain, vec!["a", "a.b-c", "1a"], vec!["", "A", "a..b", "-a", "a_b", "a."]),
            (NameRule::Label, vec!["a-b", "1"], vec!["a.b", "a-"]),
            (NameRule::Segment, vec!["system:node", "A_b"], vec!["..", "a/b", "a%b"]),
        ] {
            assert!(good.iter().all(|n| rule.check(n).is_empty()), "{rule:?}");
            assert!(bad.iter().all(|n| !rule.check(n).is_empty()), "{rule:?}");
        }
        assert_eq!(NameRule::Label.check(&"a".repeat(64)).len(), 1);
    }

    #[test]
    fn keys_and_values() {
        assert!(check_key("example.com/Name_1").is_empty());
        assert!(!check_key("a/b/c").is_empty());
        assert!(!check_key("/b").is_empty());
        assert!(check_value("").is_empty());
        assert!(!check_value("a b").is_empty());
    }
}
