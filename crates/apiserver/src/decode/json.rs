//! A JSON parser that keeps what `serde_json::Value` forgets: the order of members, those that are named twice, and how
//! numbers were written. Its errors are those of Go's parser, because clients show them.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// A parsed document. Texts without escapes are borrowed from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// As it was written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Members<'a>),
}

/// The members of an object in their order.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, Node<'a>)>;

/// Documents nest at most this deep; less than the number of stack frames it takes.
const MAX_DEPTH: usize = 110;

impl<'a> Node<'a> {
    /// Parses a whole document.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let mut parser = Parser { bytes, at: 0, depth: 0 };
        parser.space();
        let node = parser.value()?;
        parser.space();
        match parser.peek() {
            None => Ok(node),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    /// Looks at a value as if it had just been parsed.
    pub(crate) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.to_string().into()),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.as_str().into(), Self::of(value))).collect())
            }
        }
    }

    /// What Go calls it in errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// A value like any other; of members with one name the last one counts.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Number(text) => number(&text),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::Array(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Object(members) => {
                let members = members.into_iter().map(|(key, node)| (key.into_owned(), node.into_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

/// A number as JSON shows it: one without a fraction is an integer, however it was written.
pub(crate) fn number(text: &str) -> Value {
    if let Ok(integer) = text.parse::<i64>() {
        return integer.into();
    }
    let float = text.parse::<f64>().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the condition")]
    if float.fract() == 0.0 && float.abs() < 1e15 {
        return (float as i64).into();
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

const END: &str = "unexpected end of JSON input";

fn unexpected(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\r' => "\\r".to_owned(),
        ..0x20 | 0x7f => format!("\\x{byte:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or(END)?;
        self.at += 1;
        Ok(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Node<'a>, String> {
        match self.peek().ok_or(END)? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => Ok(Node::Text(self.text()?)),
            b't' => self.literal("true", Node::Bool(true)),
            b'f' => self.literal("false", Node::Bool(false)),
            b'n' => self.literal("null", Node::Null),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Node<'a>, String>) -> Result<Node<'a>, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        self.at += 1;
        let node = read(self);
        self.depth -= 1;
        node
    }

    fn literal(&mut self, word: &'static str, node: Node<'a>) -> Result<Node<'a>, String> {
        for expected in word.bytes() {
            let byte = self.next()?;
            if byte != expected {
                let place = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, &place));
            }
        }
        Ok(node)
    }

    fn object(&mut self) -> Result<Node<'a>, String> {
        let mut members = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            self.space();
            match self.peek().ok_or(END)? {
                b'"' => {}
                byte => return Err(unexpected(byte, "looking for beginning of object key string")),
            }
            let key = self.text()?;
            self.space();
            match self.next()? {
                b':' => {}
                byte => return Err(unexpected(byte, "after object key")),
            }
            self.space();
            members.push((key, self.value()?));
            self.space();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(Node::Object(members)),
                byte => return Err(unexpected(byte, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Node<'a>, String> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(Node::Array(items)),
                byte => return Err(unexpected(byte, "after array element")),
            }
        }
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Node<'a>, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(unexpected(byte, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            match self.next()? {
                b'0'..=b'9' => self.digits(),
                byte => return Err(unexpected(byte, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            match self.next()? {
                b'0'..=b'9' => self.digits(),
                byte => return Err(unexpected(byte, "in exponent of numeric literal")),
            }
        }
        let text = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(Node::Number(String::from_utf8_lossy(text)))
    }

    /// A text. Most have no escapes and are borrowed.
    fn text(&mut self) -> Result<Cow<'a, str>, String> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => {
                    let text = self.bytes.get(start..self.at - 1).unwrap_or_default();
                    return Ok(String::from_utf8_lossy(text));
                }
                b'\\' => {
                    self.at -= 1;
                    let head = self.bytes.get(start..self.at).unwrap_or_default();
                    return self.escaped(head.to_vec()).map(Cow::Owned);
                }
                byte @ ..0x20 => return Err(unexpected(byte, "in string literal")),
                _ => {}
            }
        }
    }

    /// The rest of a text from its first escape on.
    fn escaped(&mut self, mut text: Vec<u8>) -> Result<String, String> {
        loop {
            match self.next()? {
                b'"' => return Ok(String::from_utf8_lossy(&text).into_owned()),
                b'\\' => match self.next()? {
                    b'b' => text.push(8),
                    b'f' => text.push(12),
                    b'n' => text.push(b'\n'),
                    b'r' => text.push(b'\r'),
                    b't' => text.push(b'\t'),
                    byte @ (b'"' | b'\\' | b'/') => text.push(byte),
                    b'u' => {
                        let mut buffer = [0; 4];
                        text.extend_from_slice(self.unicode()?.encode_utf8(&mut buffer).as_bytes());
                    }
                    byte => return Err(unexpected(byte, "in string escape code")),
                },
                byte @ ..0x20 => return Err(unexpected(byte, "in string literal")),
                byte => text.push(byte),
            }
        }
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            match char::from(byte).to_digit(16) {
                Some(digit) => code = code * 16 + digit,
                None => return Err(unexpected(byte, "in \\u hexadecimal character escape")),
            }
        }
        Ok(code)
    }

    /// A character by its code; half of a pair is no character.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        let low = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
        if (0xd800..0xdc00).contains(&first) && low {
            let back = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_are_those_of_gos_parser() {
        for (text, error) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":1} x", "invalid character 'x' after top-level value"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("1.a", "invalid character 'a' after decimal point in numeric literal"),
            ("1e+", "unexpected end of JSON input"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\u{1f}", "invalid character '\\x1f' looking for beginning of value"),
        ] {
            assert_eq!(Node::parse(text.as_bytes()).unwrap_err(), error, "{text}");
        }
        assert_eq!(Node::parse("[".repeat(200).as_bytes()).unwrap_err(), "exceeded max depth");
    }

    #[test]
    fn nothing_is_forgotten() {
        let node = Node::parse(br#"{"b":1e2,"a":[],"b":"\ud83d\ude00\ud800\u0041"}"#).unwrap();
        let Node::Object(members) = node else { panic!("no object") };
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
        assert_eq!(keys, ["b", "a", "b"]);
        assert_eq!(members[0].1, Node::Number("1e2".into()));
        assert_eq!(members[2].1, Node::Text("\u{1f600}\u{fffd}A".into()));
        assert_eq!(number("1.0"), Value::from(1));
        assert_eq!(Node::parse(b"\"a\xff\"").unwrap(), Node::Text("a\u{fffd}".into()));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}|[\"\\\\\n\u{1}/]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in any_value()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                prop_assert_eq!(Node::parse(text.as_bytes()).unwrap().into_value(), value.clone());
            }
            prop_assert_eq!(Node::of(&value).into_value(), value);
        }

        #[test]
        fn both_parsers_refuse_the_same(text in "[\\[\\]{}:,\"a-f0-9.eE+\\\\ tru-]{0,12}") {
            let theirs = serde_json::from_str::<Value>(&text);
            // A number that is too large for theirs is only not a float for ours.
            if theirs.as_ref().err().is_none_or(|error| !error.to_string().contains("out of range")) {
                prop_assert_eq!(Node::parse(text.as_bytes()).is_ok(), theirs.is_ok());
            }
        }
    }
}
