//! The logs of layout 2, as releases before the chained journal wrote them. They are only read, once.
//!
//! A record was the length of its body, a checksum over length and body, and the body.

use bytes::Bytes;

use super::batch;
use crate::store::backend::Write;

/// Length of the body and its checksum.
const HEADER: usize = 12;

/// What a log has above a revision.
pub(super) struct Replayed {
    pub(super) writes: Vec<Write>,
    /// Whether newer records stand behind bytes that are none: something in between is damaged.
    pub(super) broken: bool,
}

/// Reads records as long as they are whole and each is newer than the one before. What follows should be older: it was
/// written the last time that the file was used.
pub(super) fn replay(log: &Bytes, above: u64) -> Replayed {
    let (mut writes, mut at, mut last) = (Vec::new(), 0, 0);
    while let Some((batch, length)) = decode(log, at) {
        let Some(first) = batch.first().map(|write| write.revision).filter(|first| *first > last) else {
            break;
        };
        last = batch.last().map_or(first, |write| write.revision);
        writes.extend(batch.into_iter().filter(|write| write.revision > above));
        at += length;
    }
    let newest = last.max(above);
    let newer = |(batch, _): (Vec<Write>, usize)| batch.first().is_some_and(|write| write.revision > newest);
    let broken = (at..log.len()).any(|at| decode(log, at).is_some_and(newer));
    Replayed { writes, broken }
}

/// The batch that begins here, and how many bytes it takes; nothing where no whole record is.
pub(super) fn decode(log: &Bytes, at: usize) -> Option<(Vec<Write>, usize)> {
    let rest = log.get(at..)?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let size = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let body = rest.get(..size)?;
    // An empty batch is never written: zeros are where nothing was written yet.
    if size == 0 || checksum(*length, body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let writes = batch::decode(&log.slice(at + HEADER..at + HEADER + size))?;
    Some((writes, HEADER + size))
}

fn checksum(length: [u8; 8], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(body);
    sum.finalize()
}
