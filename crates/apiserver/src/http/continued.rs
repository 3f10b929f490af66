//! Where a list goes on: the token of a page for the next one.
//!
//! It is made as a real server makes it, so that a wrong one is refused in the same words.

use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use serde_json::{Value, json};

use crate::decode;
use crate::failure::Failure;

const VERSION: &str = "meta.k8s.io/v1";
/// Go takes what others find too sloppy: bits behind the last byte.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Opaque to clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The state that is listed; 0 means "whatever is current".
    pub(super) revision: u64,
    /// How many objects were left after the last page.
    pub(super) left: usize,
    /// The last object of the page.
    pub(super) after: String,
}

impl Token {
    pub(super) fn write(&self) -> String {
        let revision = if self.revision == 0 { json!(-1) } else { json!(self.revision) };
        ENGINE
            .encode(json!({"v": VERSION, "rv": revision, "start": self.after, "left": self.left}).to_string())
    }

    pub(super) fn read(text: &str) -> Result<Self, Failure> {
        Self::parse(text).map_err(|why| {
            Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = ENGINE.decode(text).map_err(|error| {
            let place = match error {
                DecodeError::InvalidByte(place, _) => place,
                _ => text.len().saturating_sub(1),
            };
            format!("illegal base64 data at input byte {place}")
        })?;
        let (token, _) = decode::parse(&bytes)?;
        match token.get("v").and_then(Value::as_str).unwrap_or_default() {
            VERSION => {}
            other => return Err(format!("server does not recognize this encoded version {other}")),
        }
        let revision =
            match (token.get("rv").and_then(Value::as_i64), token.get("rv").and_then(Value::as_u64)) {
                (Some(-1), _) => 0,
                (_, Some(revision)) if revision > 0 => revision,
                _ => return Err(format!("incorrect encoded start resourceVersion (version {VERSION})")),
            };
        let after = token.get("start").and_then(Value::as_str).unwrap_or_default().to_owned();
        if after.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        let left = token.get("left").and_then(Value::as_u64).and_then(|left| usize::try_from(left).ok());
        Ok(Self { revision, left: left.unwrap_or_default(), after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_others_are_refused() {
        for revision in [0, 7] {
            let token = Token { revision, left: 3, after: "ns/a.b".into() };
            assert_eq!(Token::read(&token.write()).unwrap(), token);
        }
        for (bad, why) in [
            ("abcde", "illegal base64 data at input byte 4"),
            ("a!", "illegal base64 data at input byte 1"),
            ("e30", "server does not recognize this encoded version "),
            (
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NX0", "encoded start key empty (version meta.k8s.io/v1)"),
        ] {
            assert_eq!(Token::parse(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
