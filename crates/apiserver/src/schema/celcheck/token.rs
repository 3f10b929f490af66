//! The words of an expression.

use std::borrow::Cow;
use std::collections::HashSet;

/// A word and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) word: Word,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Name(String),
    /// A name in backticks.
    Escaped,
    Int,
    Uint,
    Double,
    Text(String),
    Bytes,
    Symbol(&'static str),
    End,
}

/// Longer ones first.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// Levels of brackets and of signs in front of each other. More than there are, if there is something in the text that
/// cannot be read here.
pub(crate) fn nesting(text: &str) -> usize {
    let (mut open, mut signs, mut deepest) = (0_usize, 0, 0);
    let mut see = |symbol: &str| {
        match symbol {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            _ => {}
        }
        signs = if matches!(symbol, "-" | "!") { signs + 1 } else { 0 };
        deepest = deepest.max(open + signs);
    };
    match words(text) {
        Some(tokens) => tokens.iter().for_each(|token| match token.word {
            Word::Symbol(symbol) => see(symbol),
            _ => see(""),
        }),
        None => text.split("").for_each(see),
    }
    deepest
}

/// Splits a text that the parser took. Nothing if there is something in it that only the parser understands.
pub(super) fn words(text: &str) -> Option<Vec<Token>> {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0 };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blank();
        let at = reader.at;
        let word = reader.word()?;
        let end = word == Word::End;
        tokens.push(Token { at, word });
        if end {
            return Some(tokens);
        }
    }
}

/// The text with `!!` blanked out, which says nothing: the interpreter's parser takes it for one `!`.
pub(in super::super) fn without_double_not(text: &str) -> Cow<'_, str> {
    let Some(tokens) = text.contains('!').then(|| words(text)).flatten() else { return Cow::Borrowed(text) };
    let is_not = |token: &Token| token.word == Word::Symbol("!");
    let mut blank = HashSet::new();
    let mut rest = tokens.as_slice();
    while let [first, others @ ..] = rest {
        rest = others;
        if let [second, after @ ..] = others
            && is_not(first)
            && is_not(second)
        {
            blank.extend([first.at, second.at]);
            rest = after;
        }
    }
    let shown = |(at, c): (usize, char)| if blank.contains(&at) { ' ' } else { c };
    Cow::Owned(text.chars().enumerate().map(shown).collect())
}

struct Reader<'t> {
    chars: &'t [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek(0).filter(|c| wanted(*c)) {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    fn starts_with(&self, symbol: &str) -> bool {
        symbol.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn skip_blank(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if !self.starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn word(&mut self) -> Option<Word> {
        let Some(first) = self.peek(0) else { return Some(Word::End) };
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || (first == '.' && digit(self.peek(1))) {
            return Some(self.number());
        }
        if matches!(first, '"' | '\'') {
            return self.text(false).map(Word::Text);
        }
        if let Some(word) = self.prefixed(first) {
            return word;
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Some(Word::Name(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        if first == '`' {
            self.at += 1;
            self.take_while(|c| c != '`');
            self.at += 1;
            return Some(Word::Escaped);
        }
        let symbol = SYMBOLS.iter().find(|symbol| self.starts_with(symbol))?;
        self.at += symbol.len();
        Some(Word::Symbol(symbol))
    }

    /// Texts with a letter or two before the quote.
    fn prefixed(&mut self, first: char) -> Option<Option<Word>> {
        let quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        let raw = |c: Option<char>| matches!(c, Some('r' | 'R'));
        match first {
            'r' | 'R' if quote(self.peek(1)) => {
                self.at += 1;
                Some(self.text(true).map(Word::Text))
            }
            'b' | 'B' if quote(self.peek(1)) => {
                self.at += 1;
                Some(self.text(false).map(|_| Word::Bytes))
            }
            'b' | 'B' if raw(self.peek(1)) && quote(self.peek(2)) => {
                self.at += 2;
                Some(self.text(true).map(|_| Word::Bytes))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Word {
        let unsigned = |this: &mut Self| {
            let found = matches!(this.peek(0), Some('u' | 'U'));
            this.at += usize::from(found);
            found
        };
        if self.starts_with("0x") && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit()) {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit());
            return if unsigned(self) { Word::Uint } else { Word::Int };
        }
        self.take_while(|c| c.is_ascii_digit());
        let mut double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            double = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit())
        {
            double = true;
            self.at += 1 + sign;
            self.take_while(|c| c.is_ascii_digit());
        }
        match double {
            true => Word::Double,
            false if unsigned(self) => Word::Uint,
            false => Word::Int,
        }
    }

    /// A text in quotes, one or three on each side.
    fn text(&mut self, raw: bool) -> Option<String> {
        let quote = self.peek(0)?;
        let three = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let quotes: String = std::iter::repeat_n(quote, if three { 3 } else { 1 }).collect();
        self.at += quotes.len();
        let mut text = String::new();
        while !self.starts_with(&quotes) {
            let c = self.peek(0)?;
            self.at += 1;
            if c == '\\' && !raw { self.escape(&mut text)? } else { text.push(c) }
        }
        self.at += quotes.len();
        Some(text)
    }

    fn escape(&mut self, text: &mut String) -> Option<()> {
        let c = self.peek(0)?;
        let (skip, digits, base) = match c {
            'x' | 'X' => (1, 2, 16),
            'u' => (1, 4, 16),
            'U' => (1, 8, 16),
            '0'..='3' => (0, 3, 8),
            _ => {
                self.at += 1;
                text.push(match c {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    other => other,
                });
                return Some(());
            }
        };
        self.at += skip;
        let number: String = self.chars.get(self.at..self.at + digits)?.iter().collect();
        self.at += digits;
        text.push(char::from_u32(u32::from_str_radix(&number, base).ok()?)?);
        Some(())
    }
}
