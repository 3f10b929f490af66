//! The object store in a file: what survives a full disk, a second opener and a newer format.

use std::collections::BTreeMap;

use super::format::ABOUT;
use super::*;
use crate::store::faulty::{Disk, How};
use crate::store::files::Machine;

/// A store in a file of this machine; made if it is not there.
fn open(path: &Path) -> Redb {
    let new = !path.exists();
    let store = Redb::open(Arc::new(Machine), path).unwrap();
    if new {
        store.fill(Identity::new(), 0, []).unwrap();
    }
    store
}

fn refused(path: &Path) -> BackendError {
    Redb::open(Arc::new(Machine), path).unwrap_err()
}

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
    let store = open(&path);
    assert!(store.blocks());
    assert_eq!(contents(&store), expect(0, &[]));
    store.commit(&[put(1, "a", "1"), put(2, "b", "2")]).unwrap();
    store.commit(&[]).unwrap();
    store.commit(&[put(3, "a", "3"), remove(4, "b"), remove(5, "never")]).unwrap();
    let expected = expect(5, &[("a", 3, "3")]);
    assert_eq!(contents(&store), expected);
    drop(store);
    assert_eq!(contents(&open(&path)), expected);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/store.redb");
    let _store = open(&path);
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = open(&path);
    let error = refused(&path).to_string();
    assert!(
        error.contains("in use by another process") && error.contains(directory.path().to_str().unwrap()),
        "{error}"
    );
    drop(store);
    open(&path);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(open(&path));
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
    transaction.open_table(ABOUT).unwrap().insert("writer", "trainyard 99.0.0").unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = inspect::inspect(&Machine, &path).unwrap_err().to_string();
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
    assert!(matches!(refused(&path), BackendError::Storage(_)));
    assert!(matches!(refused(directory.path()), BackendError::Storage(_)));
    assert!(inspect::inspect(&Machine, &path).unwrap().damage.is_some());
}

#[test]
fn a_file_of_free_space_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = open(&path);
    let big = "x".repeat(1 << 20);
    let writes: Vec<Write> = (1..=60).map(|i| put(i, &format!("k{i}"), &big)).collect();
    store.commit(&writes).unwrap();
    let removes: Vec<Write> = (61..=119).map(|i| remove(i, &format!("k{}", i - 60))).collect();
    store.commit(&removes).unwrap();
    drop(store);
    let size = || fs::metadata(&path).unwrap().len();
    let before = size();
    let store = open(&path);
    assert!(before > COMPACT_ABOVE && size() < before / 4, "{before} {}", size());
    assert_eq!(contents(&store), expect(119, &[("k60", 60, &big)]));
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
            let path = Path::new("/test/disk");
            let store = Redb::open(Arc::new(disk.clone()), path).unwrap();
            store.fill(Identity::new(), 0, []).unwrap();
            store.commit(&[put(1, "a", "1"), put(2, "b", "2")]).unwrap();
            disk.arm(budget, How { lies, ..How::default() });
            let result =
                store.commit(&[put(3, "a", &big), remove(4, "b"), put(5, "a", "5"), put(6, "c", "6")]);
            let second = store.commit(&[put(3, "d", "3")]);
            disk.disarm();
            if result.is_ok() {
                break;
            }
            failures += 1;
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("the data directory /test is full (disk: "), "{error}");
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
            assert_eq!(
                contents(&Redb::open(Arc::new(disk.clone()), path).unwrap()),
                expect(revision + 1, &expected),
                "opened again"
            );
        }
        assert!(failures > 3, "the disk failed {failures} times");
    }
}

/// redb does not look at its checksums when it reads; ours are looked at each time.
#[test]
fn an_object_that_changed_on_the_disk_is_noticed() {
    let (disk, path) = (Disk::default(), Path::new("/test/disk"));
    let store = Redb::open(Arc::new(disk.clone()), path).unwrap();
    store.fill(Identity::new(), 0, []).unwrap();
    store.commit(&[put(1, "a", "{}"), put(2, "b", r#"{"replicas":1}"#)]).unwrap();
    drop(store);
    let mut bytes = disk.bytes(path);
    let at = memchr::memmem::rfind(&bytes, b"replicas\":1").unwrap() + 10;
    bytes[at] = b'9';
    disk.put(path, bytes);
    let seen = inspect::inspect(&disk, path).unwrap();
    assert_eq!(seen.unreadable, ["b"]);
    assert_eq!(seen.objects, [("a".to_owned(), 1, Bytes::from_static(b"{}"))]);
    assert!(seen.damage.is_some());
    let error = Redb::open(Arc::new(disk.clone()), path).unwrap().load().unwrap_err().to_string();
    assert!(error.contains("b cannot be read") && error.contains("--salvage"), "{error}");
}

/// A look leaves a file exactly as it was, though redb writes to what it opens.
#[test]
fn a_look_changes_nothing() {
    let (disk, path) = (Disk::default(), Path::new("/test/disk"));
    let store = Redb::open(Arc::new(disk.clone()), path).unwrap();
    store.fill(Identity::new(), 7, [("a", 7, b"{}".as_slice())]).unwrap();
    // As after a kill, so that redb has something to repair.
    let killed = disk.picture();
    drop(store);
    for disk in [disk, killed] {
        let before = disk.bytes(path);
        let seen = inspect::inspect(&disk, path).unwrap();
        assert_eq!((seen.damage, seen.head.unwrap().revision, seen.objects.len()), (None, 7, 1));
        assert!(disk.bytes(path) == before);
    }
}

/// A file as releases before the chained journal wrote it.
pub(in crate::store) fn write_format_2(path: &Path, revision: u64, writes: &[Write]) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("format", 2).unwrap();
        meta.insert("revision", revision).unwrap();
        let mut objects = transaction.open_table(OBJECTS).unwrap();
        for write in writes {
            objects.insert(write.key.as_str(), (write.revision, write.value.as_deref().unwrap())).unwrap();
        }
    }
    transaction.commit().unwrap();
}
