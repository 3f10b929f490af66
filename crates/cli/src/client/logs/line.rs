//! Lines of a log: when they were written, and whether they were shown before.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};

/// Letters of the longest time stamp, with room.
const STAMP: usize = 48;

/// One line, with the time stamp that the server was asked to put before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When it was written, if it says so.
    pub(crate) at: Option<Timestamp>,
    /// Where the text begins.
    text: usize,
    /// Everything, without the end of the line.
    bytes: Vec<u8>,
}

impl Line {
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        let end = bytes.iter().take(STAMP).position(|byte| *byte == b' ').unwrap_or(bytes.len());
        let stamp = bytes.get(..end).and_then(|stamp| std::str::from_utf8(stamp).ok());
        let at: Option<Timestamp> = stamp.and_then(|stamp| stamp.parse().ok());
        let text = if at.is_some() { (end + 1).min(bytes.len()) } else { 0 };
        Self { at, text, bytes }
    }

    /// What the program wrote.
    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(self.text..).unwrap_or_default()
    }

    /// The same with its time stamp.
    pub(crate) fn stamped(&self) -> &[u8] {
        &self.bytes
    }

    fn key(&self) -> Option<(Timestamp, u64)> {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        self.at.map(|at| (at, hasher.finish()))
    }
}

/// What was shown of one run of a container, as far back as a server may show it again.
///
/// A stream that broke is opened again from a whole second: servers know no finer. So the lines of that second come
/// again, and are told from new ones by their time and text. Two streams of one program may be stamped a little out
/// of order: therefore one second more.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    recent: BTreeMap<(Timestamp, u64), u32>,
    again: BTreeMap<(Timestamp, u64), u32>,
    newest: Option<Timestamp>,
    /// From when on the open stream was asked for. Not every server heeds it.
    from: Option<Timestamp>,
}

impl Seen {
    /// From when on to ask for lines; nothing if none was seen.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let second = Timestamp::from_second(self.newest?.as_second()).ok()?;
        second.checked_sub(SignedDuration::from_secs(1)).ok()
    }

    /// A stream is opened: it begins with lines that were seen.
    pub(crate) fn reopen(&mut self) {
        self.again.clone_from(&self.recent);
        self.from = self.since();
    }

    /// Whether a line is new.
    pub(crate) fn admit(&mut self, line: &Line) -> bool {
        let Some(key) = line.key() else { return true };
        if self.from.is_some_and(|from| key.0 < from) {
            return false;
        }
        if let Some(count) = self.again.get_mut(&key).filter(|count| **count > 0) {
            *count -= 1;
            return false;
        }
        *self.recent.entry(key).or_default() += 1;
        if self.newest.is_none_or(|newest| newest < key.0) {
            self.newest = Some(key.0);
            if let Some(since) = self.since() {
                self.recent = self.recent.split_off(&(since, 0));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::new(format!("{text}\n").into_bytes())
    }

    #[test]
    fn a_stamp_is_told_from_text() {
        let stamped = line("2026-01-02T03:04:05.000000006Z loss 0.1");
        assert_eq!(stamped.text(), b"loss 0.1");
        assert_eq!(stamped.at.unwrap().to_string(), "2026-01-02T03:04:05.000000006Z");
        assert_eq!(line("2026-01-02T03:04:05Z ").text(), b"");
        assert_eq!(line("no stamp").text(), b"no stamp");
        assert_eq!(line("").text(), b"");
        assert_eq!(Line::new(b"2026-01-02T03:04:05Z \xff\xfe".to_vec()).text(), b"\xff\xfe");
    }

    #[test]
    fn nothing_is_shown_twice_and_nothing_is_lost() {
        let mut seen = Seen::default();
        let stamp = |second: u32, text: &str| line(&format!("2026-01-02T03:04:{second:02}.5Z {text}"));
        let first = [stamp(1, "a"), stamp(2, "b"), stamp(2, "b"), stamp(2, "c")];
        assert!(first.iter().all(|line| seen.admit(line)), "twice the same line is two lines");
        assert_eq!(seen.since().unwrap().to_string(), "2026-01-02T03:04:01Z");
        seen.reopen();
        let again =
            [stamp(1, "a"), stamp(2, "b"), stamp(2, "b"), stamp(2, "b"), stamp(2, "c"), stamp(3, "d")];
        let new: Vec<bool> = again.iter().map(|line| seen.admit(line)).collect();
        assert_eq!(new, [false, false, false, true, false, true]);
        seen.reopen();
        assert!(seen.admit(&stamp(4, "e")));
        assert!(!seen.admit(&stamp(1, "a")), "a server that sends more than it was asked for");
        assert!(!seen.recent.keys().any(|(at, _)| *at < seen.since().unwrap()), "old lines are forgotten");
    }

    #[test]
    fn lines_without_a_stamp_are_always_new() {
        let mut seen = Seen::default();
        assert!(seen.admit(&line("x")) && seen.admit(&line("x")));
        assert_eq!(seen.since(), None);
    }
}
