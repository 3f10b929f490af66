//! What is answered is there: after a kill, a torn write, a full disk, however far the object store got.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use bytes::Bytes;

use super::log::START;
use super::*;
use crate::store::faulty::{Disk, How};

/// Logs so short that they change all the time.
const SHORT: u64 = 500;

fn open(path: &Path) -> Journal {
    Journal::with(Arc::new(Machine), path, SHORT).unwrap()
}

pub(super) fn put(revision: u64, key: &str, value: &str) -> Write {
    Write { revision, key: key.to_owned(), value: Some(Bytes::copy_from_slice(value.as_bytes())) }
}

pub(super) fn remove(revision: u64, key: &str) -> Write {
    Write { revision, key: key.to_owned(), value: None }
}

pub(super) type Contents = (u64, BTreeMap<String, (u64, String)>);

pub(super) fn contents(store: &dyn Backend) -> Contents {
    let loaded = store.load().unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    (loaded.revision, loaded.objects.iter().map(|(k, r, v)| (k.clone(), (*r, text(v)))).collect())
}

/// What there is after all writes up to a revision.
pub(super) fn expected(revision: u64) -> Contents {
    let mut objects = BTreeMap::new();
    for write in (1..=revision).map(numbered) {
        match write.value {
            Some(value) => {
                objects.insert(write.key, (write.revision, String::from_utf8(value.to_vec()).unwrap()))
            }
            None => objects.remove(&write.key),
        };
    }
    (revision, objects)
}

pub(super) fn batch(after: u64) -> Vec<Write> {
    (after + 1..=after + BATCH).map(numbered).collect()
}

/// The files of a journal as they are on the disk at this moment: what a process would find that comes after a kill.
fn picture(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Waits until the object store has all that it was given.
pub(super) fn settled(journal: &Journal) {
    while !journal.shared.lock().moving.is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_written_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data/store.redb");
    let journal = open(&path);
    assert!(journal.blocks());
    for n in 0..100 {
        journal.commit(&batch(n * BATCH)).unwrap();
        journal.commit(&[]).unwrap();
        assert_eq!(contents(&journal), expected((n + 1) * BATCH));
    }
    drop(journal);
    assert_eq!(contents(&open(&path)), expected(100 * BATCH));
    // All of it is in the object store, without the logs.
    let store = Redb::open(Arc::new(Machine), &path).unwrap();
    assert_eq!(contents(&store), expected(100 * BATCH));
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let _journal = open(&path);
    for log in [0, 1] {
        assert_eq!(fs::metadata(path_of(&path, log)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// At whatever byte the last write was cut off, before it was answered: what came before is there, and nothing of it.
#[test]
fn a_torn_write_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let journal = Journal::open(&path).unwrap();
    journal.commit(&batch(0)).unwrap();
    let whole = journal.shared.lock().logs[0].size();
    let before = fs::read(path_of(&path, 1)).unwrap();
    journal.commit(&batch(BATCH)).unwrap();
    // It was not answered yet: nothing says so.
    fs::write(path_of(&path, 1), before).unwrap();
    let all = journal.shared.lock().logs[0].size();
    for cut in whole..=all {
        for garbage in [false, true] {
            let after = tempfile::tempdir().unwrap();
            picture(directory.path(), after.path());
            let log = path_of(&after.path().join("store.redb"), 0);
            let mut bytes = fs::read(&log).unwrap();
            bytes.truncate(usize::try_from(cut).unwrap());
            if garbage {
                bytes.extend([0xa5; 40]);
            }
            fs::write(&log, bytes).unwrap();
            let survived = if cut == all { 2 * BATCH } else { BATCH };
            let journal = open(&after.path().join("store.redb"));
            assert_eq!(contents(&journal), expected(survived), "cut at {cut}, garbage: {garbage}");
            journal.commit(&batch(survived)).unwrap();
            drop(journal);
            assert_eq!(contents(&open(&after.path().join("store.redb"))), expected(survived + BATCH));
        }
    }
}

/// A log is used again from its beginning, over what was in it.
#[test]
fn what_a_log_held_before_does_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let journal = open(&path);
    for n in 0..60 {
        journal.commit(&batch(n * BATCH)).unwrap();
        if n % 3 == 0 {
            settled(&journal);
        }
        let after = tempfile::tempdir().unwrap();
        // While nothing moves, since a copy of a file that is being written to is no picture of one moment.
        settled(&journal);
        picture(directory.path(), after.path());
        assert_eq!(contents(&open(&after.path().join("store.redb"))), expected((n + 1) * BATCH));
    }
}

fn encoded(identity: &Identity, previous: u64, batch: &[Write]) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode(identity, previous, batch, &mut bytes).unwrap();
    bytes
}

fn found(path: &Path, identity: &Identity) -> Vec<Write> {
    let bytes = log::read(&Machine, path).unwrap();
    assert_eq!(log::owner(&bytes), Some(*identity));
    log::contents(identity, &bytes).records.into_iter().flat_map(|record| record.writes).collect()
}

/// A record that failed may be in the file. It is gone before anything else is answered.
#[test]
fn a_failed_write_does_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let (path, identity) = (directory.path().join("log"), Identity::new());
    let mut log = Log::create(&Machine, &path, Room { long: SHORT }, &identity, 0).unwrap();
    assert_eq!((found(&path, &identity), log.size()), (vec![], START));
    log.append(&encoded(&identity, 0, &[put(1, "a", "1")]), Space::Usual).unwrap();
    log.taint(&encoded(&identity, 1, &[put(2, "b", "2"), put(3, "c", &"3".repeat(500))]));
    log.append(&encoded(&identity, 1, &[put(2, "d", "4")]), Space::Usual).unwrap();
    assert_eq!(found(&path, &identity), [put(1, "a", "1"), put(2, "d", "4")]);
}

/// A log that grew because nothing could be moved is not kept at that length.
#[test]
fn a_long_log_gives_its_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let (path, identity) = (directory.path().join("log"), Identity::new());
    let mut log = Log::create(&Machine, &path, Room { long: SHORT }, &identity, 0).unwrap();
    let bytes = encoded(&identity, 0, &[put(1, "a", &"x".repeat(1000))]);
    let length = || fs::metadata(&path).unwrap().len();
    let usual = length();
    assert!(usual >= START + 2 * SHORT, "space for a long log and for deletions: {usual}");
    for _ in 0..2 {
        log.append(&bytes, Space::Usual).unwrap();
    }
    assert!(length() > usual * 2, "{}", length());
    log.restart();
    assert_eq!((log.size(), length()), (START, usual));
    log.append(&bytes, Space::Reserve).unwrap();
    assert_eq!(found(&path, &identity).len(), 1);
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    let (disk, path) = (Disk::default(), Path::new("/data/store.redb"));
    let open = || Journal::with(Arc::new(disk.clone()), path, SHORT).unwrap();
    let journal = open();
    disk.arm(0, How::default());
    let error = journal.commit(&batch(0)).unwrap_err();
    assert!(matches!(&error, BackendError::Full { .. }), "{error}");
    disk.disarm();
    journal.commit(&batch(0)).unwrap();
    disk.arm(0, How::default());
    let error = journal.commit(&batch(BATCH)).unwrap_err();
    assert!(matches!(&error, BackendError::Full { .. }), "{error}");
    assert!(error.to_string().contains("store.journal-0"), "{error}");
    disk.disarm();
    assert_eq!(contents(&journal), expected(BATCH));
    drop(journal);
    assert_eq!(contents(&open()), expected(BATCH));
}

#[test]
fn only_the_last_write_of_an_object_is_moved() {
    let writes = [put(1, "a", "1"), put(2, "b", "2"), remove(3, "a"), put(4, "c", "4"), put(5, "b", "5")];
    assert_eq!(newest(&writes), [remove(3, "a"), put(4, "c", "4"), put(5, "b", "5")]);
}

#[test]
fn no_bytes_are_taken_for_more_than_they_are() {
    let identity = Identity::new();
    let batch = [put(7, "key", "value"), remove(8, "other")];
    let bytes = encoded(&identity, 5, &batch);
    let whole = Bytes::from(bytes.clone());
    let record = record::decode(&identity, &whole, 0).unwrap();
    assert_eq!((record.previous, record.last(), record.end), (5, 8, bytes.len()));
    assert_eq!(record.writes, batch);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            assert!(record::scan(&identity, &wrong.into()).is_empty(), "bit {bit} of byte {at}");
        }
        assert!(record::decode(&identity, &whole.slice(..at), 0).is_none(), "{at} bytes");
    }
    assert!(record::scan(&identity, &Bytes::from(vec![0; 64])).is_empty());
    assert!(record::decode(&identity, &whole, usize::MAX).is_none());
    assert!(record::scan(&Identity::new(), &whole).is_empty(), "of another store");
}

/// What revision `r` of the kill test does.
fn numbered(revision: u64) -> Write {
    if revision.is_multiple_of(7) {
        remove(revision, &format!("k{}", revision - 3))
    } else {
        put(
            revision,
            &format!("k{revision}"),
            &format!("{revision}").repeat(1 + usize::try_from(revision % 50).unwrap()),
        )
    }
}

/// Writes of a batch.
pub(super) const BATCH: u64 = 3;
const CHILD: &str = "TRAINYARD_TEST_JOURNAL_CHILD";

/// The other process of the test below; does nothing when run as a test.
#[test]
fn child_commits_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&path));
    let mut revision = store.load().unwrap().revision;
    loop {
        store.commit(&batch(revision)).unwrap();
        revision += BATCH;
        println!("ack {revision}");
    }
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let mut before = 0;
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::journal::tests::child_commits_until_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledged = before;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut killed = false;
        // Reads on after the kill: what is still in the pipe was acknowledged too.
        for line in lines {
            if let Some(revision) = line.unwrap().strip_prefix("ack ") {
                acknowledged = revision.parse().unwrap();
            }
            if !killed && acknowledged >= before + BATCH * (1 + round * 5) {
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        let (revision, objects) = contents(&open(&path));
        assert!(revision >= acknowledged && acknowledged > before, "{before} {acknowledged} {revision}");
        assert_eq!(revision % BATCH, 0, "no part of a batch");
        assert_eq!((revision, objects), expected(revision));
        before = revision;
    }
}
