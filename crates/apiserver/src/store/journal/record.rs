//! One record of a log: a batch, whole or not at all, and what it follows.
//!
//! A record is the identity of its store, the revision before it, the length of its body, a checksum over all of these
//! and the body, and the body. So a record can be found again behind bytes that are none, and one that is missing between
//! two others is noticed.

use bytes::Bytes;

use super::batch;
use crate::store::backend::Write;
use crate::store::identity::Identity;

/// Identity, revision before, length of the body, checksum.
pub(in crate::store) const HEADER: usize = Identity::LENGTH + 8 + 8 + 4;
/// Where the checksum stands.
const SUM: usize = HEADER - 4;

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct Record {
    /// The last revision of the record that was written before it.
    pub(in crate::store) previous: u64,
    pub(in crate::store) writes: Vec<Write>,
    /// Where the next record belongs.
    pub(in crate::store) end: usize,
}

impl Record {
    /// Its last revision.
    pub(in crate::store) fn last(&self) -> u64 {
        self.writes.last().map_or(self.previous, |write| write.revision)
    }
}

/// Appends a batch to a buffer; nothing if it is too large to be one.
pub(in crate::store) fn encode(
    identity: &Identity,
    previous: u64,
    writes: &[Write],
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(identity.bytes());
    out.extend_from_slice(&previous.to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    batch::encode(writes, out)?;
    let length = ((out.len() - start - HEADER) as u64).to_le_bytes();
    out.get_mut(start + SUM - 8..start + SUM)?.copy_from_slice(&length);
    let sum = checksum(out.get(start..)?)?;
    out.get_mut(start + SUM..start + HEADER)?.copy_from_slice(&sum);
    Some(())
}

/// Over everything but itself.
fn checksum(record: &[u8]) -> Option<[u8; 4]> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(record.get(..SUM)?);
    sum.update(record.get(HEADER..)?);
    Some(sum.finalize().to_le_bytes())
}

/// The record that begins here; nothing where no whole record of this store is.
pub(in crate::store) fn decode(identity: &Identity, log: &Bytes, at: usize) -> Option<Record> {
    let rest = log.get(at..)?.strip_prefix(identity.bytes())?;
    let (previous, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let end = at.checked_add(HEADER)?.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    if checksum(log.get(at..end)?)? != *sum {
        return None;
    }
    let writes = batch::decode(&log.slice(at + HEADER..end))?;
    let record = Record { previous: u64::from_le_bytes(*previous), writes, end };
    (!record.writes.is_empty()).then_some(record)
}

/// Every whole record of this store, wherever it stands.
pub(in crate::store) fn scan(identity: &Identity, log: &Bytes) -> Vec<Record> {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(found) = log.get(at..).and_then(|rest| memchr::memmem::find(rest, identity.bytes())) {
        at += found;
        match decode(identity, log, at) {
            Some(record) => {
                at = record.end;
                records.push(record);
            }
            None => at += 1,
        }
    }
    records
}
