//! Reads the fields of one protobuf message. Every way in which bytes can be wrong is an error, none is a panic.

use super::writer::{DELIMITED, FIXED32, FIXED64, VARINT};

/// Why bytes are no message, in the words of the Go decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType { wire: u32, field: String },
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    Tag { message: String, number: i32, wire: u32 },
    #[error("proto: {message}: wiretype end group for non-group")]
    EndGroup { message: String },
    #[error("proto: illegal wireType {0}")]
    UnknownWireType(u32),
    #[error("{0}")]
    Other(String),
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Nothing Kubernetes defines is written so.
    Skipped,
}

/// The rest of a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Its type's name, for errors.
    message: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], message: &'a str) -> Self {
        Self { rest: bytes, message }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Overflow)
    }

    fn fixed64(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// The next field's number and wire type, or nothing at the end.
    pub(super) fn tag(&mut self) -> Result<Option<(u32, u32)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = u32::try_from(tag & 7).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "the Go decoder cuts the number just so")]
        let number = (tag >> 3) as i32;
        if wire == 4 {
            return Err(Malformed::EndGroup { message: self.message.to_owned() });
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some((number, wire))),
            _ => Err(Malformed::Tag { message: self.message.to_owned(), number, wire }),
        }
    }

    /// What a field of a wire type holds.
    pub(super) fn content(&mut self, wire: u32) -> Result<Content<'a>, Malformed> {
        Ok(match wire {
            VARINT => Content::Varint(self.varint()?),
            FIXED64 => Content::Fixed64(self.fixed64()?),
            DELIMITED => {
                let length = self.varint()?;
                Content::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed::Truncated)?)?)
            }
            FIXED32 => {
                self.take(4)?;
                Content::Skipped
            }
            3 => {
                self.skip_group()?;
                Content::Skipped
            }
            wire => return Err(Malformed::UnknownWireType(wire)),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips what is left of a group, whatever is nested in it.
    fn skip_group(&mut self) -> Result<(), Malformed> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.varint()? & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let length = self.varint()?;
                    self.take(usize::try_from(length).map_err(|_| Malformed::Truncated)?)?;
                }
                3 => depth += 1,
                4 => depth -= 1,
                5 => drop(self.take(4)?),
                wire => return Err(Malformed::UnknownWireType(u32::try_from(wire).unwrap_or_default())),
            }
        }
        Ok(())
    }
}
