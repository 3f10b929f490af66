//! One file of the journal: batches in the order in which they were answered.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record::{self, Record};
use crate::store::backend::BackendError;
use crate::store::files::{Files, Medium, read_all};
use crate::store::identity::Identity;
use crate::store::redb::failed;

/// The first bytes of a log of layout 3. They are never written again.
const MAGIC: &[u8; 8] = b"TYLOG 3\n";
/// Magic, identity, checksum over both.
const TITLE: usize = 8 + Identity::LENGTH + 4;
/// Where the seal stands: a revision, and a checksum over identity and revision.
const SEAL: u64 = 32;
/// Where the first record stands.
pub(super) const START: u64 = 64;

/// One file of the journal. It is used again from its beginning when all that is in it is in the object store too: what
/// is behind the last record may be anything.
pub(super) struct Log {
    pub(super) path: PathBuf,
    file: Medium,
    room: Room,
    /// Where the next record belongs.
    end: u64,
    /// Up to here the file has its space on the disk, whatever else fills that.
    held: u64,
    /// A batch that failed may be in the file all the same, at this place.
    tainted: Option<Range<u64>>,
}

/// How much space a log has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// A log of this size is put into the object store.
    pub(super) long: u64,
}

impl Room {
    /// What only deletions may use. A pod costs a few versions on its way out, some ten kilobytes: this is enough for
    /// dozens, and with them go their files.
    fn reserve(self) -> u64 {
        self.long
    }

    /// What a log has from its beginning on, full disk or not.
    fn usual(self) -> u64 {
        START.saturating_add(self.long).saturating_add(self.reserve())
    }

    /// A log that has to grow does so by this much, and not with every record.
    fn step(self) -> u64 {
        (self.long / 4).max(1)
    }
}

/// Which space a record may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// All but the reserve.
    Usual,
    /// The reserve, too.
    Reserve,
}

/// What a log holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Every record of the store, wherever it stands.
    pub(super) records: Vec<Record>,
    /// Up to here writes were answered, in either log.
    pub(super) sealed: u64,
}

/// The bytes of a log; none if there is no file.
pub(super) fn read(files: &dyn Files, path: &Path) -> Result<Bytes, BackendError> {
    let file = files.existing(path).map_err(|error| failed(path, &error))?;
    let bytes = file.map_or_else(|| Ok(Vec::new()), |file| read_all(&*file));
    bytes.map(Bytes::from).map_err(|error| failed(path, &error))
}

fn sum(parts: &[&[u8]]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize().to_le_bytes()
}

/// The store that a log belongs to, if it says so.
pub(super) fn owner(log: &[u8]) -> Option<Identity> {
    let rest = log.strip_prefix(MAGIC)?;
    let (identity, rest) = rest.split_first_chunk::<{ Identity::LENGTH }>()?;
    let (found, _) = rest.split_first_chunk::<4>()?;
    (sum(&[MAGIC, identity]) == *found).then(|| Identity::from_bytes(*identity))
}

/// What a log holds of a store.
pub(super) fn contents(identity: &Identity, log: &Bytes) -> Contents {
    let start = usize::try_from(START).unwrap_or(usize::MAX);
    let mut records = record::scan(identity, &log.slice(start.min(log.len())..));
    records.iter_mut().for_each(|record| record.end += start);
    Contents { records, sealed: sealed(identity, log).unwrap_or(0) }
}

fn sealed(identity: &Identity, log: &[u8]) -> Option<u64> {
    let rest = log.get(usize::try_from(SEAL).ok()?..)?;
    let (revision, rest) = rest.split_first_chunk::<8>()?;
    let (found, _) = rest.split_first_chunk::<4>()?;
    (sum(&[identity.bytes(), revision]) == *found).then(|| u64::from_le_bytes(*revision))
}

impl Log {
    /// Opens a log that was read before; the next record belongs at this place.
    pub(super) fn open(files: &dyn Files, path: &Path, room: Room, end: u64) -> Result<Self, BackendError> {
        let mut log = Self::unprepared(files, path, room, end)?;
        // Of a release before, or of a disk that was full. What is there can be read and gone on with all the same.
        if let Err(error) = log.hold(room.usual()) {
            tracing::warn!(%error, path = %path.display(), "no space can be set aside for deletions");
        }
        Ok(log)
    }

    fn unprepared(files: &dyn Files, path: &Path, room: Room, end: u64) -> Result<Self, BackendError> {
        let file = files.create(path).map_err(|error| failed(path, &error))?;
        // Logs are never sparse: they grow by being written to.
        let held = file.len().map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), file, room, end: end.max(START), held, tainted: None })
    }

    /// Makes a log, with nothing in it, whatever the file held.
    pub(super) fn create(
        files: &dyn Files,
        path: &Path,
        room: Room,
        identity: &Identity,
        answered: u64,
    ) -> Result<Self, BackendError> {
        let mut log = Self::unprepared(files, path, room, START)?;
        let mut title = Vec::with_capacity(TITLE);
        title.extend_from_slice(MAGIC);
        title.extend_from_slice(identity.bytes());
        title.extend_from_slice(&sum(&[MAGIC, identity.bytes()]));
        let written = log
            .cut(0)
            .and_then(|()| log.hold(room.usual()))
            .and_then(|()| log.file.write(0, &title))
            .and_then(|()| log.seal(identity, answered))
            .and_then(|()| log.file.sync_data());
        written.map_err(|error| failed(path, &error))?;
        Ok(log)
    }

    pub(super) fn size(&self) -> u64 {
        self.end
    }

    /// Begins anew: nothing in the file is needed any more. One that grew far beyond its usual length, because the object
    /// store took nothing for a while, gives its space back.
    pub(super) fn restart(&mut self) {
        let usual = self.room.usual();
        if self.held > usual.saturating_mul(2)
            && let Err(error) = self.cut(usual)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot give the space of a long journal back");
        }
        self.end = START;
    }

    /// Makes a record durable. Nothing is written where it would find no space.
    pub(super) fn append(&mut self, record: &[u8], space: Space) -> io::Result<()> {
        if self.tainted.is_some() {
            self.blank()?;
        }
        let end = self.end.saturating_add(record.len() as u64);
        let kept = if space == Space::Usual { self.room.reserve() } else { 0 };
        self.hold(end.saturating_add(kept))?;
        let written = self.file.write(self.end, record).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // It may be there, in whole or in part, and whoever waits for it is told that it is not.
            self.tainted = Some(self.end..end);
            if let Err(again) = self.blank() {
                tracing::warn!(error = %again, "cannot take back a failed write of the journal; will retry");
            }
            return Err(error);
        }
        self.end = end;
        Ok(())
    }

    /// Notes that writes up to a revision are answered, in the log that takes none of them: a log that is cut off, or whose
    /// last record is damaged, does not say so itself. It is not synced: when it is lost, only the notice is.
    pub(super) fn seal(&mut self, identity: &Identity, answered: u64) -> io::Result<()> {
        let revision = answered.to_le_bytes();
        let mut seal = [0; 12];
        let (number, check) = seal.split_at_mut(8);
        number.copy_from_slice(&revision);
        check.copy_from_slice(&sum(&[identity.bytes(), &revision]));
        self.file.write(SEAL, &seal)
    }

    /// A record that was written, and of which it was said that it was not.
    #[cfg(test)]
    pub(super) fn taint(&mut self, record: &[u8]) {
        self.file.write(self.end, record).unwrap();
        self.tainted = Some(self.end..self.end + record.len() as u64);
    }

    /// Sees to it that the file has space up to here. Zeros are written: a length that was only set has none.
    fn hold(&mut self, length: u64) -> io::Result<()> {
        if length <= self.held {
            return Ok(());
        }
        let length = length.max(self.held.saturating_add(self.room.step()));
        let written = self.zero(self.held..length);
        if written.is_err() {
            // A part of it would be of no use here, and others may need it.
            let _ = self.file.set_len(self.held);
            return written;
        }
        self.held = length;
        Ok(())
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = range.start;
        while at < range.end {
            let piece = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.file.write(at, ZEROS.get(..piece).unwrap_or(&ZEROS))?;
            at = at.saturating_add(piece as u64);
        }
        Ok(())
    }

    /// Cuts the file off here.
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.held = length;
        Ok(())
    }

    /// Makes sure that a record that failed cannot be taken for one. It is written over, because the file must keep its
    /// space; where even that fails, the file is cut off.
    fn blank(&mut self) -> io::Result<()> {
        let Some(range) = self.tainted.clone() else { return Ok(()) };
        if self.zero(range).and_then(|()| self.file.sync_data()).is_err() {
            self.cut(self.end)?;
            self.file.sync_data()?;
        }
        self.tainted = None;
        Ok(())
    }
}
