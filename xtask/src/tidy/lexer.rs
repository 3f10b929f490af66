//! Just enough of Rust's lexical rules to tell code from strings and comments, so that the checks count braces and
//! words that are really there.

/// What a byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Identifiers, keywords, operators, white space.
    Code,
    /// The inside and the delimiters of a string or character.
    Text,
    /// A comment of any sort, documentation included.
    Comment,
}

/// The class of every byte of a source text.
pub(crate) fn classify(text: &str) -> Vec<Class> {
    let mut classes = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (class, length) = token(rest);
        // A token never ends inside a character; at least one is taken, so that the loop ends whatever happens.
        let length = length.clamp(1, rest.len());
        let length = (length..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        classes.extend(std::iter::repeat_n(class, length));
        rest = rest.get(length..).unwrap_or_default();
    }
    classes
}

/// The text with every byte outside the wanted classes blanked. Line breaks stay, so lines keep their numbers.
pub(crate) fn keep(text: &str, classes: &[Class], wanted: &[Class]) -> String {
    let kept = text.bytes().zip(classes).map(|(byte, class)| match byte {
        b'\n' => b'\n',
        _ if wanted.contains(class) => byte,
        _ => b' ',
    });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

/// The class and length of the token at the start of a text that is not empty.
fn token(text: &str) -> (Class, usize) {
    if text.starts_with("//") {
        return (Class::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Class::Comment, block_comment(text));
    }
    if text.starts_with('"') {
        return (Class::Text, quoted(text, 1));
    }
    if text.starts_with('\'') {
        return character(text).map_or((Class::Code, 1), |length| (Class::Text, length));
    }
    let word = text.find(|next: char| !is_word(next)).unwrap_or(text.len());
    let (word, after) = text.split_at(word);
    match word {
        "r" | "br" | "cr" => match raw_string(after) {
            Some(length) => (Class::Text, word.len() + length),
            None => (Class::Code, word.len()),
        },
        "b" | "c" if after.starts_with('"') => (Class::Text, quoted(text, 2)),
        "b" if after.starts_with('\'') => (Class::Text, 1 + character(after).unwrap_or(1)),
        _ => (Class::Code, word.len()),
    }
}

/// True for what identifiers are made of.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.as_bytes().get(at..) {
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth = depth.saturating_sub(1);
            at += 2;
            if depth == 0 {
                return at;
            }
        } else if rest.is_empty() {
            break;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a string whose contents start at `from`.
fn quoted(text: &str, from: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `#"…"#` and its like, after the prefix; `r#name` is no string.
fn raw_string(after: &str) -> Option<usize> {
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(after.len(), |at| hashes + 1 + at + end.len()))
}

/// The length of a character literal; `None` means a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut letters = inside.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next()?;
        return letters.find(|(_, letter)| *letter == '\'').map(|(at, _)| at + 2);
    }
    letters.next().filter(|(_, letter)| *letter == '\'').map(|(at, _)| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        assert_eq!(keep(text, &classify(text), &[Class::Code]).split_whitespace().collect::<String>(), code);
    }

    #[test]
    fn strings_and_characters_are_no_code() {
        check(r#"a("{\"}") b"#, "a()b");
        check(r##"a(r#"{"}"#) b"##, "a()b");
        check(r#"a(b"{", c"{", br"{\") b"#, "a(,,)b");
        check(r"a('{', '\'', b'{', '\u{7b}') b", "a(,,,)b");
        check("for x in \"ä{\" {", "forxin{");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check("fn a<'a>(x: &'a str, r#fn: u8) {}", "fna<'a>(x:&'astr,r#fn:u8){}");
        check("'outer: loop { break 'outer; }", "'outer:loop{break'outer;}");
    }

    #[test]
    fn comments_nest_and_end() {
        check("a // {\nb", "ab");
        check("a /* { /* { */ { */ b", "ab");
        check("a \"// no comment\" b", "ab");
    }

    #[test]
    fn unfinished_text_ends_with_the_file() {
        for text in ["a /* b", "a \"b", "a r#\"b", "a 'b", "a '\\", "ä"] {
            assert_eq!(classify(text).len(), text.len());
        }
    }
}
