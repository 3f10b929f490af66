//! Disks for tests, in memory: they can fail at any call, and be damaged anywhere.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use redb::{DatabaseError, StorageBackend};

use super::files::{Files, Medium};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// A disk. Clones are the same disk; it survives all handles, as files do.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    files: Arc<Mutex<BTreeMap<PathBuf, Bytes>>>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    /// Calls until failure; negative: never.
    budget: AtomicI64,
    /// Whether the failing call still happens, as a failed sync of data that did reach the disk.
    lies: AtomicBool,
    /// Whether it fails once, or from then on.
    once: AtomicBool,
    /// Whether opening and reading count and fail, too.
    reads: AtomicBool,
    /// How many bytes all files may still grow by; negative: any number.
    space: AtomicI64,
}

impl Default for Faults {
    fn default() -> Self {
        let no = || AtomicBool::new(false);
        Self { budget: AtomicI64::new(-1), lies: no(), once: no(), reads: no(), space: AtomicI64::new(-1) }
    }
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    pub(super) lies: bool,
    pub(super) once: bool,
    pub(super) reads: bool,
}

impl Disk {
    /// Fails at the call with this number.
    pub(super) fn arm(&self, budget: i64, how: How) {
        self.faults.lies.store(how.lies, Ordering::SeqCst);
        self.faults.once.store(how.once, Ordering::SeqCst);
        self.faults.reads.store(how.reads, Ordering::SeqCst);
        self.faults.budget.store(budget, Ordering::SeqCst);
    }

    /// Calls that are left until failure; none if it came.
    pub(super) fn left(&self) -> i64 {
        self.faults.budget.load(Ordering::SeqCst)
    }

    pub(super) fn disarm(&self) {
        self.faults.budget.store(-1, Ordering::SeqCst);
    }

    /// From now on files may grow by this much in all. What they have already can be written over, but for the object
    /// store: redb sets the length of its file before it needs it, so that any write to it may need space.
    pub(super) fn limit(&self, bytes: i64) {
        self.faults.space.store(bytes, Ordering::SeqCst);
    }

    /// What another process would find that comes after a kill at this moment. It never fails.
    pub(super) fn picture(&self) -> Self {
        let copy = |bytes: &Bytes| Arc::new(Mutex::new(bytes.lock().unwrap().clone()));
        let files =
            self.files.lock().unwrap().iter().map(|(path, bytes)| (path.clone(), copy(bytes))).collect();
        Self { files: Arc::new(Mutex::new(files)), faults: Arc::default() }
    }

    pub(super) fn bytes(&self, path: &Path) -> Vec<u8> {
        self.files.lock().unwrap()[path].lock().unwrap().clone()
    }

    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.files.lock().unwrap().insert(path.to_owned(), Arc::new(Mutex::new(bytes)));
    }

    pub(super) fn remove(&self, path: &Path) {
        self.files.lock().unwrap().remove(path);
    }
}

impl Faults {
    /// True if this call fails.
    fn fails(&self, reads: bool) -> bool {
        if reads && !self.reads.load(Ordering::SeqCst) {
            return false;
        }
        let take = |budget: i64| match budget {
            1.. => Some(budget - 1),
            0 if self.once.load(Ordering::SeqCst) => Some(-1),
            _ => None,
        };
        match self.budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(before) | Err(before) => before == 0,
        }
    }

    fn read(&self) -> io::Result<()> {
        if self.fails(true) { Err(io::Error::other("the disk does not answer")) } else { Ok(()) }
    }

    /// Takes the space for a file that changes its length; gives it back for one that shrinks.
    fn resize(&self, from: usize, to: usize) -> io::Result<()> {
        let growth = i64::try_from(to).unwrap() - i64::try_from(from).unwrap();
        let take = |space: i64| match space {
            0.. => (growth <= space).then_some(space - growth),
            unlimited => Some(unlimited),
        };
        let taken = self.space.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        taken.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
    }

    fn write(&self, change: impl FnOnce()) -> io::Result<()> {
        let fails = self.fails(false);
        if !fails || self.lies.load(Ordering::SeqCst) {
            change();
        }
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Files for Disk {
    fn existing(&self, path: &Path) -> Result<Option<Medium>, DatabaseError> {
        self.faults.read()?;
        let file = self.files.lock().unwrap().get(path).cloned();
        Ok(file.map(|bytes| self.handle(path, bytes)))
    }

    fn create(&self, path: &Path) -> Result<Medium, DatabaseError> {
        self.faults.read()?;
        let bytes = Arc::clone(self.files.lock().unwrap().entry(path.to_owned()).or_default());
        Ok(self.handle(path, bytes))
    }
}

impl Disk {
    fn handle(&self, path: &Path, bytes: Bytes) -> Medium {
        let sparse = path.extension().is_some_and(|extension| extension == "redb");
        Arc::new(Handle { bytes, sparse, faults: Arc::clone(&self.faults) })
    }
}

#[derive(Debug)]
struct Handle {
    bytes: Bytes,
    sparse: bool,
    faults: Arc<Faults>,
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        self.faults.read()?;
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.read()?;
        let start = usize::try_from(offset).unwrap();
        let bytes = self.bytes.lock().unwrap();
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        self.faults.resize(self.bytes.lock().unwrap().len(), len)?;
        self.faults.write(|| self.bytes.lock().unwrap().resize(len, 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.write(|| ())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let there = self.bytes.lock().unwrap().len();
        if self.sparse && self.faults.space.load(Ordering::SeqCst) >= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.faults.resize(there, there.max(start + data.len()))?;
        self.faults.write(|| {
            let mut bytes = self.bytes.lock().unwrap();
            let length = bytes.len().max(start + data.len());
            bytes.resize(length, 0);
            bytes[start..start + data.len()].copy_from_slice(data);
        })
    }
}
