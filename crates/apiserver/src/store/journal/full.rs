//! A disk that is full at a start, and while objects are deleted: all that was answered is there, and there is a way out.

use super::tests::{BATCH, batch, contents, expected, put, remove, settled};
use super::*;
use crate::store::faulty::{Disk, How};

/// Long enough for a few batches.
const SHORT: u64 = 900;

fn path() -> &'static Path {
    Path::new("/data/objects.redb")
}

fn open(disk: &Disk) -> Result<Journal, BackendError> {
    Journal::with(Arc::new(disk.clone()), path(), SHORT)
}

/// A disk as a kill leaves it, after this many batches.
fn killed(batches: u64) -> Disk {
    let disk = Disk::default();
    let journal = open(&disk).unwrap();
    for n in 0..batches {
        journal.commit(&batch(n * BATCH)).unwrap();
        settled(&journal);
    }
    disk.picture()
}

/// Whichever call is the first that finds no space, the start goes on and shows everything; and nothing of it harms the
/// start after it.
#[test]
fn a_start_without_space_at_every_call() {
    for batches in [5, 6, 7, 14] {
        let mut call = 0;
        loop {
            let disk = killed(batches);
            disk.arm(call, How::default());
            let what = format!("call {call} after {batches} batches");
            let journal = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(contents(&journal), expected(batches * BATCH), "{what}");
            drop(journal);
            let met = disk.left() <= 0;
            disk.disarm();
            let journal = open(&disk).unwrap_or_else(|error| panic!("{what}, again: {error}"));
            assert_eq!(contents(&journal), expected(batches * BATCH), "{what}, again");
            journal.commit(&batch(batches * BATCH)).unwrap();
            drop(journal);
            assert_eq!(contents(&open(&disk).unwrap()), expected((batches + 1) * BATCH), "{what}, at last");
            if !met {
                break;
            }
            call += 1;
        }
        assert!(call > 3, "{call}");
    }
}

fn is_full(done: &Result<(), BackendError>) -> bool {
    matches!(done, Err(BackendError::Full { .. }))
}

/// Writes until the disk takes no more, and returns the last revision that was answered.
fn fill(journal: &Journal, mut revision: u64) -> u64 {
    loop {
        let done = journal.commit(&[put(revision + 1, &format!("f{revision}"), &"x".repeat(90))]);
        if is_full(&done) {
            return revision;
        }
        done.unwrap();
        revision += 1;
    }
}

#[test]
fn deletions_find_space_on_a_full_disk() {
    let disk = Disk::default();
    let journal = open(&disk).unwrap();
    disk.limit(0);
    let answered = fill(&journal, 0);
    assert!(answered > 2, "the log has its own space: {answered}");
    // As after a kill, and by a process that never saw space.
    let disk = disk.picture();
    disk.limit(0);
    let again = open(&disk).unwrap();
    let (revision, before) = contents(&again);
    assert_eq!((revision, before.len() as u64), (answered, answered));
    assert!(is_full(&again.commit(&[put(answered + 1, "more", &"x".repeat(90))])));
    for n in 0..2 {
        again.commit_from_reserve(&[remove(answered + 1 + n, &format!("f{n}"))]).unwrap();
    }
    assert!(
        is_full(&again.commit(&[put(answered + 3, "more", &"x".repeat(90))])),
        "the reserve is not for this"
    );
    let killed = disk.picture();
    let (revision, objects) = contents(&open(&killed).unwrap());
    assert_eq!((revision, objects.len() as u64), (answered + 2, answered - 2));
    assert!(!objects.contains_key("f0") && !objects.contains_key("f1") && objects.contains_key("f2"));
    disk.limit(-1);
    again.commit(&[put(answered + 4, "more", "{}")]).unwrap();
    drop(again);
    assert_eq!(contents(&open(&disk).unwrap()).1.len() as u64, answered - 1);
}

/// The reserve ends, too, and then nothing is half written.
#[test]
fn a_reserve_that_is_used_up_is_said() {
    let disk = Disk::default();
    let journal = open(&disk).unwrap();
    disk.limit(0);
    let mut revision = fill(&journal, 0);
    let before = revision;
    let refused = loop {
        let done = journal.commit_from_reserve(&[put(revision + 1, "going", &"x".repeat(40))]);
        match done {
            Ok(()) => revision += 1,
            Err(error) => break error,
        }
    };
    assert!(revision > before + 2, "{before} {revision}");
    assert!(
        refused.to_string().starts_with("the data directory /data is full (objects.journal-"),
        "{refused}"
    );
    assert_eq!(contents(&open(&disk.picture()).unwrap()).0, revision);
    drop(journal);
    assert_eq!(contents(&open(&disk).unwrap()).0, revision);
}

/// A journal of a release that set nothing aside.
#[test]
fn a_journal_without_a_reserve_starts_on_a_full_disk_and_gets_one_later() {
    let disk = killed(5);
    for log in [0, 1].map(|number| path_of(path(), number)) {
        let mut bytes = disk.bytes(&log);
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.resize(bytes.len().max(64), 0);
        disk.put(&log, bytes);
    }
    disk.limit(0);
    let journal = open(&disk).unwrap();
    assert_eq!(contents(&journal), expected(5 * BATCH));
    drop(journal);
    disk.limit(-1);
    drop(open(&disk).unwrap());
    disk.limit(0);
    open(&disk).unwrap().commit_from_reserve(&[remove(5 * BATCH + 1, "k1")]).unwrap();
    assert!(!contents(&open(&disk).unwrap()).1.contains_key("k1"));
}
