//! Writes protobuf from its end to its beginning.
//!
//! A message is preceded by its length, which is known only when the message is written. So everything is written in
//! reverse order, and turned round once at the end: no size is computed beforehand and nothing is moved.

/// Wire types.
pub(super) const VARINT: u32 = 0;
pub(super) const FIXED64: u32 = 1;
pub(super) const DELIMITED: u32 = 2;
pub(super) const FIXED32: u32 = 5;

/// Reversed bytes.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.reverse();
        self.0
    }

    /// Bytes without their length.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev());
    }

    fn varint(&mut self, mut value: u64) {
        let start = self.0.len();
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            self.0.push(if value > 0 { low | 0x80 } else { low });
            if value == 0 {
                break;
            }
        }
        if let Some(written) = self.0.get_mut(start..) {
            written.reverse();
        }
    }

    fn tag(&mut self, number: u32, wire: u32) {
        self.varint(u64::from(number << 3 | wire));
    }

    pub(super) fn int(&mut self, number: u32, value: i64) {
        self.varint(value.cast_unsigned());
        self.tag(number, VARINT);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.tag(number, FIXED64);
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.nested(number, |writer| writer.raw(bytes));
    }

    /// A message whose fields `write` writes, the last one first.
    pub(super) fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        write(self);
        let length = self.0.len() - start;
        self.varint(length as u64);
        self.tag(number, DELIMITED);
    }
}
