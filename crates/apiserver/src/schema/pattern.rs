//! Patterns: the schema language means Go's regular expressions, we have Rust's.
//!
//! Both come from RE2 and agree on nearly everything. This translates the rest: classes that are ASCII in Go and
//! Unicode here, characters that are ordinary in Go and special here, and `\Q…\E`.

use regex::{Regex, RegexBuilder};

/// Compiled size above which a pattern is refused: it would otherwise be a way to fill memory with one CRD.
const SIZE_LIMIT: usize = 4 << 20;

/// Compiles a Go pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern)).size_limit(SIZE_LIMIT).build().map_err(|e| {
        // The last line says what is wrong; the others draw the pattern with a marker, which suits no JSON message.
        let text = e.to_string();
        let why = text.lines().last().unwrap_or(&text).trim().trim_start_matches("error: ");
        let why = match why {
            "unclosed group" => format!("missing closing ): `{pattern}`"),
            "unopened group" => format!("unexpected ): `{pattern}`"),
            other => other.to_owned(),
        };
        format!("error parsing regexp: {why}")
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    // Just after `[` or `[^`, where `]` is an ordinary character.
    let mut class_start = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.strip_prefix(c).unwrap_or_default();
        let at_start = std::mem::replace(&mut class_start, false);
        rest = after;
        match c {
            '\\' => rest = escape(after, &mut out),
            '[' if in_class && after.starts_with(':') => {
                // A named class such as [:alpha:] is the same in both.
                let end = after.find(":]").map_or(0, |end| end + 2);
                let (name, next) = after.split_at_checked(end).unwrap_or(("", after));
                out.push(if name.is_empty() { '\\' } else { '[' });
                out.push_str(if name.is_empty() { "[" } else { name });
                rest = next;
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                (in_class, class_start) = (true, true);
                out.push('[');
                if let Some(next) = after.strip_prefix('^') {
                    out.push('^');
                    rest = next;
                }
            }
            ']' if in_class && at_start => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Set operations here, plain characters there.
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && after.starts_with('-') => out.push_str("\\-"),
            '{' if !in_class && !is_repetition(after) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// Translates what follows a backslash and returns what follows that.
fn escape<'a>(after: &'a str, out: &mut String) -> &'a str {
    let Some(c) = after.chars().next() else {
        out.push('\\');
        return "";
    };
    let rest = after.strip_prefix(c).unwrap_or_default();
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        '<' | '>' => out.push(c),
        'Q' => {
            let (quoted, next) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return next;
        }
        c => out.extend(['\\', c]),
    }
    rest
}

/// Whether a `{` begins a repetition. Go takes it for itself otherwise.
fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        None => digits(inside),
        Some((low, high)) => digits(low) && (high.is_empty() || digits(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_mean_what_they_mean_in_go() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "٣"),
            (r"^\w+$", "a_1", "é"),
            (r"^\s$", " ", "\u{a0}"),
            (r"^\D$", "é", "1"),
            (r"^[\w.-]+$", "a.b-c", "é"),
            (r"^[^\s]+$", "a", "a b"),
            (r"^[[]$", "[", "]"),
            (r"^[]a]$", "]", "b"),
            (r"^[^]a]$", "b", "]"),
            (r"^[[:alpha:]&&]$", "&", "1"),
            (r"^{.*}$", "{x}", "x"),
            (r"^a{2}$", "aa", "a{2}"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^\Qa.b\E+$", "a.bb", "axb"),
            (r"^\<a\>$", "<a>", "a"),
            (r"\bfoo\b", "a foo b", "afoob"),
            (r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$", "10Gi", "Gi"),
            (r"(?i)^ABC$", "abc", "abd"),
            (r"^.{3}$", "äöü", "ab"),
            (r"^\x41\-\/$", "A-/", "B-/"),
        ] {
            let regex = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert!(regex.is_match(yes), "{pattern} {yes:?}");
            assert!(!regex.is_match(no), "{pattern} {no:?}");
        }
        for bad in ["(", "[a", r"\", "(?=x)", r"\1", "(a{1000}){1000}"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }
}
