//! Words of the label selector language.

/// One word, borrowed from the selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Anything that is no operator: a key or a value.
    Word(&'a str),
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Not,
    Comma,
    Open,
    Close,
    /// Past the end; returned for ever.
    End,
}

impl<'a> Token<'a> {
    /// The text as it stood in the selector, for error messages.
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Word(word) => word,
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::Not => "!",
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::End => "",
        }
    }

    /// Where a value is expected, `in` and `notin` are ordinary words.
    pub(super) fn as_value(self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Word(self.text()),
            other => other,
        }
    }
}

/// Cuts a selector into tokens with one token of look-ahead.
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next token without consuming it.
    pub(super) fn peek(&self) -> Token<'a> {
        self.scan().0
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.scan();
        self.rest = rest;
        token
    }

    fn scan(&self) -> (Token<'a>, &'a str) {
        const SYMBOLS: [(&str, Token<'static>); 9] = [
            ("==", Token::DoubleEquals),
            ("!=", Token::NotEquals),
            ("=", Token::Equals),
            ("!", Token::Not),
            (">", Token::Greater),
            ("<", Token::Less),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
        ];
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if text.is_empty() {
            return (Token::End, text);
        }
        for (symbol, token) in SYMBOLS {
            if let Some(rest) = text.strip_prefix(symbol) {
                return (token, rest);
            }
        }
        let end = text.find([' ', '\t', '\r', '\n', '=', '!', '>', '<', ',', '(', ')']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let token = match word {
            "in" => Token::In,
            "notin" => Token::NotIn,
            _ => Token::Word(word),
        };
        (token, rest)
    }
}
