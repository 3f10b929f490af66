//! Reading YAML, with errors in the words of the real server's parser.
//!
//! Both parsers come from the same C library, so most of what they find is the same thing; this puts it into the other's
//! words. A line is told unless it is the first, and the other counts them in two ways: what is wrong with characters
//! stands in its line, what is wrong with the structure stands in the line before.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

use crate::yaml::document;

/// How remarks on keys that are there twice end.
pub(crate) const TWICE: &str = " already set in map";
/// What stands before them in an error.
pub(crate) const HEAD: &str = "yaml: unmarshal errors:\n  ";

/// What a document says. Only the first of several counts.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let bytes = first_document(text).as_bytes();
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    if text.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) {
        return Err("yaml: control characters are not allowed".to_owned());
    }
    if let Some(wrong) = leading_tab(text) {
        return Err(wrong.told());
    }
    document(bytes, DuplicateKeyPolicy::LastWins).map_err(|error| Wrong::of(&error, text).told())
}

/// The first key that is there twice, as the real server tells it.
pub(crate) fn duplicate(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    match document(first_document(text).as_bytes(), DuplicateKeyPolicy::Error) {
        Err(Error::DuplicateMappingKey { key, location }) => {
            let key = key.unwrap_or_default();
            Some(format!("line {}: key {key:?}{TWICE}", location.line()))
        }
        _ => None,
    }
}

/// Everything before the second document.
fn first_document(text: &str) -> &str {
    let mut end = 0;
    let mut begun = false;
    for line in text.split_inclusive('\n') {
        let starts = line == "---" || line.starts_with("--- ") || line.trim_end() == "---";
        if starts && begun {
            return text.get(..end).unwrap_or(text);
        }
        begun |= starts || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        end += line.len();
    }
    text
}

/// A tab before the first word.
fn leading_tab(text: &str) -> Option<Wrong> {
    let blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let (index, line) = text.lines().enumerate().find(|(_, line)| !blank(line))?;
    let indent = line.strip_suffix(line.trim_start()).unwrap_or_default();
    indent.contains('\t').then(|| Wrong::character(index + 1, NO_TOKEN))
}

const NO_TOKEN: &str = "found character that cannot start any token";
const NO_CONTENT: &str = "did not find expected node content";
const NO_KEY: &str = "did not find expected key";

/// What is wrong, and the line that is told.
struct Wrong {
    line: usize,
    why: String,
}

impl Wrong {
    /// Something wrong with the characters of a line, counted from one.
    fn character(line: usize, why: &str) -> Self {
        Self { line: if line > 1 { line } else { 0 }, why: why.to_owned() }
    }

    /// Something wrong with the structure at a line, counted from one.
    fn structure(line: usize, why: &str) -> Self {
        Self { line: line.saturating_sub(1), why: why.to_owned() }
    }

    /// Something that has no place.
    fn nowhere(why: impl Into<String>) -> Self {
        Self { line: 0, why: why.into() }
    }

    fn told(&self) -> String {
        match self.line {
            0 => format!("yaml: {}", self.why),
            line => format!("yaml: line {line}: {}", self.why),
        }
    }

    fn of(error: &Error, text: &str) -> Self {
        let place = error.location();
        let line = place.as_ref().map_or(1, |place| usize::try_from(place.line()).unwrap_or(usize::MAX));
        let column = place.as_ref().map_or(1, |place| usize::try_from(place.column()).unwrap_or(usize::MAX));
        let said = error.to_string();
        let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
        let said = said
            .rsplit_once(", ")
            .filter(|(head, _)| head.starts_with("while "))
            .map_or(said, |(_, why)| why);
        let here = Here { text, line, column };
        same_words(said, line).or_else(|| here.flow(said)).or_else(|| here.rest(said)).unwrap_or_else(|| {
            let line = if line > 1 { line } else { 0 };
            Self { line, why: said.to_owned() }
        })
    }
}

/// What both say in the same words.
fn same_words(said: &str, line: usize) -> Option<Wrong> {
    const CHARACTERS: [&str; 9] = [
        "mapping values are not allowed in this context",
        "block sequence entries are not allowed in this context",
        "mapping keys are not allowed in this context",
        "found unknown escape character",
        "did not find expected comment or line break",
        "found an indentation indicator equal to 0",
        "did not find expected alphabetic or numeric character",
        "did not find expected hexadecimal number",
        "found a tab character where an indentation space is expected",
    ];
    const STRUCTURES: [&str; 2] = [NO_KEY, "did not find expected '-' indicator"];
    if CHARACTERS.contains(&said) {
        // The other has never spelt it right.
        return Some(Wrong::character(line, &said.replace("hexadecimal", "hexdecimal")));
    }
    STRUCTURES.contains(&said).then(|| Wrong::structure(line, said))
}

/// A place in a text.
struct Here<'t> {
    text: &'t str,
    line: usize,
    column: usize,
}

impl Here<'_> {
    /// What is wrong between brackets.
    fn flow(&self, said: &str) -> Option<Wrong> {
        if said.starts_with("unclosed bracket") {
            let open = Brackets::read(self.text);
            return Some(open.wanted(lines_to_end(self.text)));
        }
        if said.starts_with("mismatched bracket") {
            let open = Brackets::read(self.text);
            return Some(open.wanted(open.wrong_at.unwrap_or(self.line)));
        }
        let inside = Brackets::read(self.before());
        match said {
            "misplaced bracket" | "unexpected EOF while parsing an implicit flow mapping" => {
                Some(Wrong::structure(self.line, NO_CONTENT))
            }
            _ if said.starts_with("invalid trailing content after") => match inside.innermost() {
                Some(_) => Some(inside.wanted(self.line)),
                None => Some(Wrong::structure(self.line, NO_KEY)),
            },
            "did not find expected ',' or '}'" | "did not find expected ',' or ']'" => {
                Some(inside.wanted(self.line))
            }
            _ => None,
        }
    }

    fn rest(&self, said: &str) -> Option<Wrong> {
        Some(match said {
            "unclosed quote" => {
                Wrong::character(self.text.matches('\n').count() + 1, "found unexpected end of stream")
            }
            "invalid indentation in multiline quoted scalar" => {
                Wrong::character(self.text.matches('\n').count() + 1, "found unexpected end of stream")
            }
            "alias references unknown anchor" => {
                Wrong::nowhere(format!("unknown anchor '{}' referenced", self.anchor()))
            }
            "YAML merge value must be mapping or sequence of mappings" => {
                Wrong::nowhere("map merge requires map or sequence of maps as the value")
            }
            "did not find expected <document start>" if self.line_text().starts_with('%') => {
                Wrong::character(self.line, "found unknown directive name")
            }
            "did not find expected <document start>" => Wrong::structure(self.line, said),
            "wrongly indented line in block scalar" => Wrong::structure(self.line, NO_KEY),
            "a block scalar content cannot start with a tab" => Wrong::character(
                self.line + 1,
                "found a tab character where an indentation space is expected",
            ),
            _ if said.starts_with("simple key expect") => {
                Wrong::character(self.next_content(), "could not find expected ':'")
            }
            _ if said.starts_with("tabs disallowed") => Wrong::character(self.line, NO_TOKEN),
            _ if said.starts_with("unexpected character") => Wrong::character(self.line, NO_TOKEN),
            _ => return None,
        })
    }

    /// The next line with something in it, or the end.
    fn next_content(&self) -> usize {
        let mut lines = self.text.lines().enumerate().skip(self.line);
        let found = lines.find(|(_, line)| !(line.trim().is_empty() || line.trim_start().starts_with('#')));
        found.map_or(self.text.matches('\n').count() + 1, |(index, _)| index + 1)
    }

    fn line_text(&self) -> &str {
        self.text.split('\n').nth(self.line.saturating_sub(1)).unwrap_or_default()
    }

    fn before(&self) -> &str {
        let lines: usize =
            self.text.split_inclusive('\n').take(self.line.saturating_sub(1)).map(str::len).sum();
        let columns: usize =
            self.line_text().chars().take(self.column.saturating_sub(1)).map(char::len_utf8).sum();
        self.text.get(..lines + columns).unwrap_or(self.text)
    }

    /// The name after the star that stands here.
    fn anchor(&self) -> String {
        let rest = self.text.strip_prefix(self.before()).unwrap_or_default();
        let name = rest.strip_prefix('*').unwrap_or(rest);
        name.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect()
    }
}

/// The lines up to the end, where one that is not ended counts as ended.
fn lines_to_end(text: &str) -> usize {
    let ended = text.is_empty() || text.ends_with('\n');
    text.matches('\n').count() + if ended { 1 } else { 2 }
}

/// Brackets that are open at the end of a text, or where one does not fit.
#[derive(Default)]
struct Brackets {
    open: Vec<char>,
    /// The last character that means something, inside the brackets.
    last: Option<char>,
    /// The line of a bracket that closes another.
    wrong_at: Option<usize>,
}

impl Brackets {
    /// Reads a text far enough to know its brackets: quoted texts and comments have none.
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        let (mut line, mut quote, mut before) = (1, None, '\n');
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            line += usize::from(c == '\n');
            match (quote, c) {
                (Some('"'), '\\') => {
                    line += usize::from(chars.next() == Some('\n'));
                }
                (Some(closing), c) if closing == c => quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => {
                    line += usize::from(chars.by_ref().any(|c| c == '\n'));
                }
                (None, '\'' | '"') if before.is_whitespace() || "[{,:".contains(before) => quote = Some(c),
                (None, '[' | '{') if !found.open.is_empty() || before.is_whitespace() => found.open.push(c),
                (None, ']' | '}') if !found.open.is_empty() => {
                    let fits = matches!((found.open.last(), c), (Some('['), ']') | (Some('{'), '}'));
                    if !fits {
                        found.wrong_at = Some(line);
                        return found;
                    }
                    found.open.pop();
                }
                (None, _) => {}
            }
            before = c;
            if !c.is_whitespace() {
                found.last = Some(c);
            }
        }
        found
    }

    fn innermost(&self) -> Option<char> {
        self.open.last().copied()
    }

    /// What is missing at a line.
    fn wanted(&self, line: usize) -> Wrong {
        if matches!(self.last, Some('[' | '{' | ',' | ':' | '?')) {
            return Wrong::structure(line, NO_CONTENT);
        }
        let closing = if self.innermost() == Some('[') { ']' } else { '}' };
        Wrong::structure(line, &format!("did not find expected ',' or '{closing}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and what a real server says about them.
    #[test]
    fn errors_have_the_words_of_a_real_server() {
        let recorded: Vec<(String, String)> = serde_json::from_str(include_str!("yaml.json")).unwrap();
        assert!(recorded.len() > 70);
        let mut different = Vec::new();
        for (text, expected) in recorded {
            let said = read(text.as_bytes()).err().unwrap_or_default();
            if said != expected {
                different.push(format!("{text:?}\n  real {expected}\n  ours {said}"));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    }

    #[test]
    fn the_first_document_counts() {
        for text in ["a: 1\n---\nb: {", "---\na: 1\n---\nb: 2\n", "# c\n%YAML 1.2\n--- \na: 1\n--- 2"] {
            assert_eq!(read(text.as_bytes()), Ok(serde_json::json!({"a": 1})), "{text:?}");
        }
        assert_eq!(duplicate(b"a: 1\na: 2\n").as_deref(), Some("line 2: key \"a\" already set in map"));
        assert_eq!(duplicate(b"a: 1\n---\na: 2\n"), None);
    }
}
