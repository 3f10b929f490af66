//! One file of the journal: batches in the order in which they were answered.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record;
use crate::store::backend::Write;
use crate::store::redb::open_file;

/// One file of the journal. It is used again from its beginning when all that is in it is in the object store too: what
/// is behind the last record may be anything.
pub(super) struct Log {
    pub(super) path: PathBuf,
    file: File,
    /// Where the next record belongs.
    end: u64,
    /// A batch that failed may be in the file all the same, behind the end.
    tainted: bool,
}

impl Log {
    /// Opens a file and reads what is in it, which is whatever has a revision above this one.
    pub(super) fn open(path: &Path, above: u64) -> io::Result<(Self, Vec<Write>)> {
        let file = open_file(path)?;
        let (mut bytes, length) = (Vec::new(), file.metadata()?.len());
        (&file).take(length).read_to_end(&mut bytes)?;
        let (writes, end) = replay(&bytes.into(), above);
        Ok((Self { path: path.to_owned(), file, end, tainted: false }, writes))
    }

    pub(super) fn size(&self) -> u64 {
        self.end
    }

    /// Begins anew: nothing in the file is needed any more. One that grew far beyond its usual length, because the object
    /// store took nothing for a while, gives its space back.
    pub(super) fn restart(&mut self, usual: u64) {
        if self.end > usual.saturating_mul(4)
            && let Err(error) = self.file.set_len(0)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot give the space of a long journal back");
        }
        self.end = 0;
    }

    /// Makes a record durable.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if self.tainted {
            self.blank()?;
        }
        let written = self.file.write_all_at(record, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // It may be there, in whole or in part, and whoever waits for it is told that it is not.
            self.tainted = true;
            if let Err(again) = self.blank() {
                tracing::warn!(error = %again, "cannot take back a failed write of the journal; will retry");
            }
            return Err(error);
        }
        self.end += record.len() as u64;
        Ok(())
    }

    /// A record that was written, and of which it was said that it was not.
    #[cfg(test)]
    pub(super) fn taint(&mut self, record: &[u8]) {
        self.file.write_all_at(record, self.end).unwrap();
        self.tainted = true;
    }

    /// Makes sure that nothing behind the end can be taken for a record.
    fn blank(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.sync_data()?;
        self.tainted = false;
        Ok(())
    }
}

/// Reads records as long as they are whole and each is newer than the one before. What follows is older: it was written
/// the last time that the file was used.
fn replay(log: &Bytes, above: u64) -> (Vec<Write>, u64) {
    let (mut writes, mut at, mut last) = (Vec::new(), 0, 0);
    while let Some((batch, length)) = record::decode(log, at) {
        let Some(first) = batch.first().map(|write| write.revision).filter(|first| *first > last) else {
            break;
        };
        last = batch.last().map_or(first, |write| write.revision);
        writes.extend(batch.into_iter().filter(|write| write.revision > above));
        at += length;
    }
    (writes, at as u64)
}
