//! The writes of a batch as bytes, one after another.

use bytes::Bytes;

use crate::store::backend::Write;

/// Stands for the length of the value of an object that is removed.
const REMOVED: u32 = u32::MAX;

/// Appends a batch to a buffer; nothing if it is too large to be one.
pub(super) fn encode(batch: &[Write], out: &mut Vec<u8>) -> Option<()> {
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
    Some(())
}

/// Reads a batch back; nothing if these bytes are none.
pub(super) fn decode(body: &Bytes) -> Option<Vec<Write>> {
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
