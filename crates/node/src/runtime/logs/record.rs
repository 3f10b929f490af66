//! One record of a log file: `<time> stdout|stderr F|P <text>`.

/// Every time is written with nine decimals, so that it always has this length and sorts as text.
pub(super) const TIME: usize = 30;
/// Where the mark for whole lines and parts stands.
pub(super) const MARK: usize = TIME + 8;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) time: &'a [u8],
    pub(super) stderr: bool,
    /// The end of a line; otherwise it goes on in the next record of the same source.
    pub(super) whole: bool,
    pub(super) text: &'a [u8],
}

impl<'a> Record<'a> {
    /// Nothing for a line that no shim wrote.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let (time, rest) = line.split_at_checked(TIME)?;
        let stderr = rest.starts_with(b" stderr ");
        if !stderr && !rest.starts_with(b" stdout ") {
            return None;
        }
        let whole = match rest.get(8..10)? {
            b"F " => true,
            b"P " => false,
            _ => return None,
        };
        Some(Self { time, stderr, whole, text: rest.get(10..)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_other_lines_are_not() {
        let record = Record::parse(b"2026-01-02T03:04:05.000000006Z stderr P half").unwrap();
        assert!(record.stderr && !record.whole);
        assert_eq!(record.text, b"half");
        assert_eq!(Record::parse(b"2026-01-02T03:04:05.000000006Z stdout F ").unwrap().text, b"");
        for bad in ["", "hello", "2026-01-02T03:04:05.000000006Z stdout X a", "2026-01-02T03:04:05.00000000"]
        {
            assert_eq!(Record::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
