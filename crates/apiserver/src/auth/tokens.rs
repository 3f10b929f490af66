//! Tokens that are known beforehand: on one machine, the one of the data directory's owner.

use std::fmt;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

/// The bearer tokens that are accepted.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[Box<[u8]>]>);

impl fmt::Debug for Tokens {
    /// How many there are; never what they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// These tokens. Empty ones are dropped: they would let in everybody.
    pub fn new<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Self {
        let bytes = |token: T| Box::<[u8]>::from(token.as_ref().trim().as_bytes());
        Self(tokens.into_iter().map(bytes).filter(|token| !token.is_empty()).collect())
    }

    /// Looks at every token and at every byte, whatever was found before: the time tells nothing but lengths.
    pub(super) fn accept(&self, given: &[u8]) -> bool {
        let found = self.0.iter().fold(Choice::from(0), |found, token| found | token.as_ref().ct_eq(given));
        found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_tokens_count() {
        let tokens = Tokens::new(["abc", "", "  ", "longer-one\n"]);
        for (given, known) in
            [("abc", true), ("longer-one", true), ("", false), ("ab", false), ("abcd", false), ("ABC", false)]
        {
            assert_eq!(tokens.accept(given.as_bytes()), known, "{given:?}");
        }
        assert_eq!(format!("{tokens:?}"), "Tokens(2)");
        assert!(!Tokens::default().accept(b""));
    }
}
