//! The object store in a file: what survives a full disk, a second opener and a newer format.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redb::StorageBackend;

use super::format::{ABOUT, FORMAT};
use super::*;

fn put(revision: u64, key: &str, value: &str) -> Write {
    Write { revision, key: key.to_owned(), value: Some(Bytes::copy_from_slice(value.as_bytes())) }
}

fn remove(revision: u64, key: &str) -> Write {
    Write { revision, key: key.to_owned(), value: None }
}

/// Revision and objects, for comparison.
fn contents(store: &Redb) -> (u64, BTreeMap<String, (u64, String)>) {
    let loaded = store.load().unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    (loaded.revision, loaded.objects.iter().map(|(k, r, v)| (k.clone(), (*r, text(v)))).collect())
}

fn expect(revision: u64, objects: &[(&str, u64, &str)]) -> (u64, BTreeMap<String, (u64, String)>) {
    (revision, objects.iter().map(|(k, r, v)| ((*k).to_owned(), (*r, (*v).to_owned()))).collect())
}

#[test]
fn what_is_written_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data/store.redb");
    let store = Redb::open(&path).unwrap();
    assert!(store.blocks());
    assert_eq!(contents(&store), expect(0, &[]));
    store.commit(&[put(1, "a", "1"), put(2, "b", "2")]).unwrap();
    store.commit(&[]).unwrap();
    store.commit(&[put(3, "a", "3"), remove(4, "b"), remove(5, "never")]).unwrap();
    let expected = expect(5, &[("a", 3, "3")]);
    assert_eq!(contents(&store), expected);
    drop(store);
    assert_eq!(contents(&Redb::open(&path).unwrap()), expected);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/store.redb");
    let _store = Redb::open(&path).unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Redb::open(&path).unwrap();
    let error = Redb::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("in use by another process") && error.contains(directory.path().to_str().unwrap()),
        "{error}"
    );
    drop(store);
    Redb::open(&path).unwrap();
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(Redb::open(&path).unwrap());
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
    transaction.open_table(ABOUT).unwrap().insert("writer", "trainyard 99.0.0").unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = Redb::open(&path).unwrap_err().to_string();
    let format = format!("data format {}", FORMAT + 1);
    for part in ["written by trainyard 99.0.0", "newer", "Start trainyard 99.0.0 or later", &format] {
        assert!(error.contains(part), "{error}");
    }
    let left = Database::create(&path).unwrap().begin_read().unwrap();
    assert_eq!(left.open_table(META).unwrap().get("format").unwrap().unwrap().value(), FORMAT + 1);
    assert_eq!(left.open_table(ABOUT).unwrap().get("writer").unwrap().unwrap().value(), "trainyard 99.0.0");
}

#[test]
fn a_file_that_is_no_store_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    fs::write(&path, vec![7; 10_000]).unwrap();
    assert!(matches!(Redb::open(&path), Err(BackendError::Storage(_))));
    assert!(matches!(Redb::open(directory.path()), Err(BackendError::Storage(_))));
}

#[test]
fn a_file_of_free_space_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Redb::open(&path).unwrap();
    let big = "x".repeat(1 << 20);
    let writes: Vec<Write> = (1..=60).map(|i| put(i, &format!("k{i}"), &big)).collect();
    store.commit(&writes).unwrap();
    let removes: Vec<Write> = (61..=119).map(|i| remove(i, &format!("k{}", i - 60))).collect();
    store.commit(&removes).unwrap();
    drop(store);
    let size = || fs::metadata(&path).unwrap().len();
    let before = size();
    let store = Redb::open(&path).unwrap();
    assert!(before > COMPACT_ABOVE && size() < before / 4, "{before} {}", size());
    assert_eq!(contents(&store), expect(119, &[("k60", 60, &big)]));
}

/// A disk that can fail. It survives the handle, as a file does.
#[derive(Clone, Debug, Default)]
struct Disk {
    data: Arc<Mutex<Vec<u8>>>,
    /// Operations until failure; negative: never.
    budget: Arc<AtomicI64>,
    /// Whether the failing operation still happens, as a failed sync of data that did reach the disk.
    lies: Arc<AtomicBool>,
}

impl Disk {
    fn arm(&self, budget: i64, lies: bool) {
        self.lies.store(lies, Ordering::SeqCst);
        self.budget.store(budget, Ordering::SeqCst);
    }

    fn disarm(&self) {
        self.budget.store(-1, Ordering::SeqCst);
    }

    fn failing(&self) -> bool {
        let take = |b: i64| (b > 0).then(|| b - 1);
        match self.budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => false,
            Err(budget) => budget == 0,
        }
    }

    fn attempt(&self, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let failing = self.failing();
        if !failing || self.lies.load(Ordering::SeqCst) {
            change(&mut self.data.lock().unwrap());
        }
        if failing { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn open(&self) -> Redb {
        let disk = self.clone();
        Redb::with(
            Path::new("/test/disk"),
            Box::new(move || Builder::new().create_with_backend(disk.clone())),
        )
        .unwrap()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.data.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let data = self.data.lock().unwrap();
        let from = data.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(from);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.attempt(|data| data.resize(usize::try_from(len).unwrap(), 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.attempt(|_| ())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.attempt(|data| data[start..start + bytes.len()].copy_from_slice(bytes))
    }
}

/// Fails every operation of a commit in turn. Whichever it is, nothing of the batch stays, and the same handle works
/// as soon as the disk does.
#[test]
fn a_failed_commit_leaves_nothing_and_the_handle_works() {
    let big = "y".repeat(300_000);
    for lies in [false, true] {
        let mut failures = 0;
        for budget in 0.. {
            let disk = Disk::default();
            disk.disarm();
            let store = disk.open();
            store.commit(&[put(1, "a", "1"), put(2, "b", "2")]).unwrap();
            disk.arm(budget, lies);
            let result =
                store.commit(&[put(3, "a", &big), remove(4, "b"), put(5, "a", "5"), put(6, "c", "6")]);
            let second = store.commit(&[put(3, "d", "3")]);
            disk.disarm();
            if result.is_ok() {
                break;
            }
            failures += 1;
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("the data directory is full (/test/disk: "), "{error}");
            let mut expected = vec![("a", 1, "1"), ("b", 2, "2")];
            let mut revision = 2;
            if second.is_ok() {
                expected.push(("d", 3, "3"));
                revision = 3;
            }
            assert_eq!(
                contents(&store),
                expect(revision, &expected),
                "failure at operation {budget}, lies: {lies}"
            );
            store.commit(&[put(revision + 1, "e", "z")]).unwrap();
            expected.push(("e", revision + 1, "z"));
            drop(store);
            assert_eq!(contents(&disk.open()), expect(revision + 1, &expected), "opened again");
        }
        assert!(failures > 3, "the disk failed {failures} times");
    }
}

/// From the moment at which a journal may hold what the file has not, a binary that knows of none must not open it.
#[test]
fn an_older_file_becomes_a_newer_one_with_the_first_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Redb::open(&path).unwrap();
    store.commit(&[put(1, "a", "1")]).unwrap();
    drop(store);
    let format = |set: Option<u64>| {
        let transaction = Database::create(&path).unwrap().begin_write().unwrap();
        let found = {
            let mut meta = transaction.open_table(META).unwrap();
            if let Some(format) = set {
                meta.insert("format", format).unwrap();
            }
            meta.get("format").unwrap().unwrap().value()
        };
        transaction.commit().unwrap();
        found
    };
    assert_eq!(format(Some(1)), 1);
    let store = Redb::open(&path).unwrap();
    assert_eq!(contents(&store), expect(1, &[("a", 1, "1")]));
    drop(store);
    assert_eq!(format(None), 1, "opening writes nothing");
    Redb::open(&path).unwrap().sign().unwrap();
    assert_eq!(format(None), FORMAT);
    assert_eq!(contents(&Redb::open(&path).unwrap()), expect(1, &[("a", 1, "1")]));
}
