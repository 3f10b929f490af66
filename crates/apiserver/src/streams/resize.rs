//! Sizes of a terminal as clients send them: JSON objects one after the other, cut anywhere.

use serde::Deserialize;

use super::Size;

/// No size is written in more than this.
const LONGEST: usize = 1024;

#[derive(Deserialize)]
struct Written {
    #[serde(rename = "Width", alias = "width", default)]
    width: u16,
    #[serde(rename = "Height", alias = "height", default)]
    height: u16,
}

/// Reads sizes out of a stream of bytes. After something that is no size it reads no more, as a real server does.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    rest: Vec<u8>,
    lost: bool,
}

impl Sizes {
    /// The last size in what came: the ones before are over already.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Size> {
        if self.lost {
            return None;
        }
        self.rest.extend_from_slice(bytes);
        let mut values = serde_json::Deserializer::from_slice(&self.rest).into_iter::<Written>();
        let mut last = None;
        loop {
            match values.next() {
                Some(Ok(Written { width, height })) => last = Some(Size { columns: width, rows: height }),
                Some(Err(error)) => {
                    self.lost = !error.is_eof();
                    break;
                }
                None => break,
            }
        }
        let used = values.byte_offset();
        self.rest.drain(..used.min(self.rest.len()));
        self.lost |= self.rest.len() > LONGEST;
        if self.lost {
            self.rest = Vec::new();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(columns: u16, rows: u16) -> Option<Size> {
        Some(Size { columns, rows })
    }

    #[test]
    fn sizes_are_read_wherever_they_are_cut() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.feed(br#"{"Width":80,"Height":24}"#), size(80, 24));
        assert_eq!(sizes.feed(b"\n{\"Wid"), None);
        assert_eq!(sizes.feed(br#"th":1,"Height":2}{"Width":3,"Height":4}{"#), size(3, 4));
        assert_eq!(sizes.feed(br#""Width":5,"Height":6}"#), size(5, 6));
        assert_eq!(sizes.feed(br#"{}"#), size(0, 0));
    }

    #[test]
    fn what_is_no_size_ends_it() {
        for bad in [&b"hello"[..], br#"{"Width":99999}"#, br#"{"Width":-1}"#, &[b'['; 5000]] {
            let mut sizes = Sizes::default();
            assert_eq!(sizes.feed(bad), None, "{bad:?}");
            assert_eq!(sizes.feed(br#"{"Width":1,"Height":1}"#), None, "{bad:?}");
            assert!(sizes.rest.is_empty());
        }
        let mut sizes = Sizes::default();
        assert_eq!(sizes.feed(&[b' '; 5000]), None);
        assert!(sizes.rest.len() <= LONGEST);
    }
}
