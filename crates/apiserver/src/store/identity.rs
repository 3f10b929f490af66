//! Which store a file belongs to.

use std::fmt;

/// Random, made with the store. Every record of its journal begins with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity([u8; Self::LENGTH]);

impl Identity {
    pub(super) const LENGTH: usize = 16;

    /// A new one. No text has a byte 255 in it, so that no object that a client writes can look like a record.
    pub(super) fn new() -> Self {
        let mut bytes: [u8; Self::LENGTH] = rand::random();
        bytes[0] = 0xff;
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(super) fn from_numbers(high: u64, low: u64) -> Self {
        Self(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }

    pub(super) fn numbers(&self) -> (u64, u64) {
        let [high, low] = [0, 64].map(|shift| {
            let number = u128::from_be_bytes(self.0) << shift >> 64;
            u64::try_from(number).unwrap_or_default()
        });
        (high, low)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_numbers() {
        let identity = Identity::new();
        let (high, low) = identity.numbers();
        assert_eq!(Identity::from_numbers(high, low), identity);
        assert_ne!(Identity::new(), identity);
        assert!(std::str::from_utf8(identity.bytes()).is_err());
    }
}
