//! A Rust file with its test items and functions found.

use std::ops::Range;

use super::lexer::{self, Class, is_word};

/// A file of the tree, read and taken apart.
pub(crate) struct Source {
    /// The path from the root, with `/`.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// Code alone; strings and comments are blank.
    pub(crate) code: String,
    /// Comments alone.
    pub(crate) comments: String,
    /// Code and strings; comments are blank.
    pub(crate) words: String,
    /// Byte ranges of items that only exist in tests.
    tests: Vec<Range<usize>>,
}

/// A function and how long it is, from its name to its closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line of its name, from 1.
    pub(crate) line: usize,
    /// Its length in lines.
    pub(crate) lines: usize,
    /// True inside a test item.
    pub(crate) test: bool,
}

impl Source {
    /// Reads a file's text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let classes = lexer::classify(text);
        let code = lexer::keep(text, &classes, &[Class::Code]);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            comments: lexer::keep(text, &classes, &[Class::Comment]),
            words: lexer::keep(text, &classes, &[Class::Code, Class::Text]),
            tests: test_items(&code),
            code,
        }
    }

    /// True when the whole file is test code, by where it lies.
    pub(crate) fn is_test_file(&self) -> bool {
        let folders = ["/tests/", "/benches/", "crates/testkit/"];
        folders.iter().any(|folder| self.path.contains(folder)) || self.path.ends_with("tests.rs")
    }

    /// True at a byte that belongs to a test item.
    pub(crate) fn in_test(&self, at: usize) -> bool {
        self.is_test_file() || self.tests.iter().any(|range| range.contains(&at))
    }

    /// The number of the line that a byte is on, from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    /// Every function with a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        words(&self.code)
            .filter(|(at, word)| *word == "fn" && !self.code.get(..*at).unwrap_or_default().ends_with('#'))
            .filter_map(|(at, _)| {
                let after = self.code.get(at + 2..)?.trim_start();
                let name: String = after.chars().take_while(|letter| is_word(*letter)).collect();
                let end = item_end(&self.code, at)?;
                let body = self.code.get(at..end)?;
                let lines = body.matches('\n').count() + 1;
                let has_body = !name.is_empty() && body.ends_with('}');
                has_body.then(|| Function { name, line: self.line_of(at), lines, test: self.in_test(at) })
            })
            .collect()
    }
}

/// The words of a text, with where each starts.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    runs(text, is_word)
}

/// The longest runs of letters that belong together, with where each starts.
pub(crate) fn runs(text: &str, belongs: fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let start = at + rest.find(belongs)?;
        let run = text.get(start..)?;
        let run = run.get(..run.find(|letter| !belongs(letter)).unwrap_or(run.len()))?;
        at = start + run.len();
        Some((start, run))
    })
}

/// Items under `#[cfg(test)]`, or everything under `#![cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    if code.contains("#![cfg(test)]") {
        return std::iter::once(0..code.len()).collect();
    }
    let mark = "#[cfg(test)]";
    code.match_indices(mark)
        .map(|(at, _)| at..item_end(code, after_attributes(code, at + mark.len())).unwrap_or(code.len()))
        .collect()
}

/// Where an item starts that has further attributes.
fn after_attributes(code: &str, mut at: usize) -> usize {
    loop {
        let rest = code.get(at..).unwrap_or_default();
        at += rest.len() - rest.trim_start().len();
        if !rest.trim_start().starts_with("#[") {
            return at;
        }
        let Some(length) = matching(rest.trim_start(), '[', ']') else {
            return at;
        };
        at += length;
    }
}

/// The end of the item that starts at a byte: its closing brace, or a semicolon before any brace.
fn item_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, letter) in code.get(from..)?.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return Some(from + at + 1),
            '{' if depth == 0 => {
                return matching(code.get(from + at..)?, '{', '}').map(|length| from + at + length);
            }
            _ => {}
        }
    }
    None
}

/// The length up to and with the bracket that closes the first opening one.
pub(crate) fn matching(code: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, letter) in code.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth -= 1;
            if depth == 0 {
                return Some(at + 1);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"//! Header.
fn short() { "}" ; }
trait T { fn no_body(&self, x: [u8; 4]); }
/// fn in_a_comment() {}
fn long(call: fn(u8) -> u8) -> [u8; 2]
where
    u8: Copy,
{
    fn inner() {}
    [1, 2]
}

#[cfg(test)]
#[rustfmt::skip]
mod tests {
    fn helper() {}
}
fn after() {}
"#;

    #[test]
    fn functions_are_found_with_their_length() {
        let found: Vec<_> = Source::new("a.rs", TEXT)
            .functions()
            .into_iter()
            .map(|function| (function.name, function.line, function.lines, function.test))
            .collect();
        let expected = [
            ("short", 2, 1, false),
            ("long", 5, 7, false),
            ("inner", 9, 1, false),
            ("helper", 16, 1, true),
            ("after", 18, 1, false),
        ];
        let expected = expected.map(|(name, line, lines, test)| (name.to_owned(), line, lines, test));
        assert_eq!(found, expected);
    }

    #[test]
    fn test_files_are_known_by_where_they_lie() {
        for path in ["crates/a/tests/it/main.rs", "crates/testkit/src/lib.rs", "crates/a/src/plan_tests.rs"] {
            assert!(Source::new(path, "").is_test_file(), "{path}");
        }
        assert!(!Source::new("crates/a/src/plan.rs", "").is_test_file());
        assert!(Source::new("a.rs", "#![cfg(test)]\nfn a() {}").in_test(20));
    }

    #[test]
    fn words_know_where_they_start() {
        assert_eq!(words("a→bc  d").collect::<Vec<_>>(), [(0, "a"), (4, "bc"), (8, "d")]);
    }
}
