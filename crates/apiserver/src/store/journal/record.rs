//! The bytes of a log: one record for each batch, whole or not at all.
//!
//! A record is the length of its body, a checksum over length and body, and the body: the writes one after another.

use bytes::Bytes;

use crate::store::backend::Write;

/// Length of the body and its checksum.
const HEADER: usize = 12;
/// Stands for the length of the value of an object that is removed.
const REMOVED: u32 = u32::MAX;

/// Appends a batch to a buffer; nothing if it is too large to be one.
pub(super) fn encode(batch: &[Write], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    for write in batch {
        let value = write.value.as_deref();
        let length = match value {
            Some(value) => u32::try_from(value.len()).ok().filter(|length| *length != REMOVED)?,
            None => REMOVED,
        };
        out.extend_from_slice(&write.revision.to_le_bytes());
        out.extend_from_slice(&u32::try_from(write.key.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(write.key.as_bytes());
        out.extend_from_slice(value.unwrap_or_default());
    }
    let length = ((out.len() - start - HEADER) as u64).to_le_bytes();
    let body = out.get(start + HEADER..)?;
    let sum = checksum(length, body).to_le_bytes();
    let header = out.get_mut(start..start + HEADER)?;
    header.get_mut(..8)?.copy_from_slice(&length);
    header.get_mut(8..)?.copy_from_slice(&sum);
    Some(())
}

fn checksum(length: [u8; 8], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(body);
    sum.finalize()
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
    let writes = writes(&log.slice(at + HEADER..at + HEADER + size))?;
    Some((writes, HEADER + size))
}

fn writes(body: &Bytes) -> Option<Vec<Write>> {
    let (mut writes, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let (revision, rest) = body.get(at..)?.split_first_chunk::<8>()?;
        let (key, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = (usize::try_from(u32::from_le_bytes(*key)).ok()?, u32::from_le_bytes(*value));
        let name = std::str::from_utf8(rest.get(..key)?).ok()?.to_owned();
        at += 16 + key;
        let value = match value {
            REMOVED => None,
            length => {
                let length = usize::try_from(length).ok()?;
                body.get(at..at.checked_add(length)?)?;
                at += length;
                Some(body.slice(at - length..at))
            }
        };
        writes.push(Write { revision: u64::from_le_bytes(*revision), key: name, value });
    }
    Some(writes)
}
