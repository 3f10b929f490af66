//! Disk faults, one after another: every bit of a small journal, every length of it, the object store all over, and an
//! error at every call. After each the start is refused and says what to do, or all that was answered is there.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::opening::{Found, look};
use super::salvage::gather;
use super::tests::{BATCH, Contents, batch, contents, expected, settled};
use super::*;
use crate::store::faulty::{Disk, How};
use crate::store::redb::inspect::Seen;

const PATH: &str = "/data/objects.redb";
/// Long enough for a few batches, so that the object store has some and the journal the others.
const SHORT: u64 = 900;

fn path() -> &'static Path {
    Path::new(PATH)
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
        // A picture of one moment.
        settled(&journal);
    }
    disk.picture()
}

/// All that was answered is there, or the start is refused with advice. True if it is refused.
fn judge(found: Result<Contents, BackendError>, answered: u64, what: &str) -> bool {
    match found {
        Ok(contents) => {
            assert_eq!(contents, expected(answered), "{what}");
            false
        }
        Err(error) => {
            assert!(matches!(error, BackendError::Damaged { .. }), "{what}: {error}");
            assert!(error.to_string().contains("trainyard up --salvage"), "{what}: {error}");
            true
        }
    }
}

fn summary(loaded: Loaded) -> Contents {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    (loaded.revision, loaded.objects.iter().map(|(k, r, v)| (k.clone(), (*r, text(v)))).collect())
}

/// How a start goes on when one of the logs is this one. The object store is the same each time, so it is read once.
fn decide(found: &Found, number: usize, log: Vec<u8>) -> Result<Contents, BackendError> {
    let Seen { head, objects, .. } = &found.seen;
    let seen = Seen { head: *head, objects: objects.clone(), ..Seen::default() };
    let mut logs = found.logs.clone();
    logs[number] = log.into();
    Found { seen, logs }.start(path()).map(|start| summary(start.loaded))
}

#[test]
fn every_bit_of_the_journal() {
    const BATCHES: u64 = 14;
    let disk = killed(BATCHES);
    let found = look(&disk, path()).unwrap();
    let (mut refused, mut gone_on) = (0, 0);
    for number in [0, 1] {
        let log = disk.bytes(&path_of(path(), number));
        for at in 0..log.len() {
            for bit in 0..8 {
                let mut wrong = log.clone();
                wrong[at] ^= 1 << bit;
                let decided = decide(&found, number, wrong);
                let refuses =
                    judge(decided, BATCHES * BATCH, &format!("bit {bit} of byte {at} of log {number}"));
                *(if refuses { &mut refused } else { &mut gone_on }) += 1;
            }
        }
    }
    // What the object store has may be damaged in the journal; what it has not may not.
    assert!(refused > 500 && gone_on > 500, "{refused} {gone_on}");
}

#[test]
fn every_length_of_the_journal() {
    const BATCHES: u64 = 14;
    let disk = killed(BATCHES);
    let found = look(&disk, path()).unwrap();
    for number in [0, 1] {
        let log = disk.bytes(&path_of(path(), number));
        for length in 0..log.len() {
            judge(
                decide(&found, number, log[..length].to_vec()),
                BATCHES * BATCH,
                &format!("{length} bytes"),
            );
        }
        let missing = disk.picture();
        missing.remove(&path_of(path(), number));
        assert!(judge(open(&missing).map(|journal| contents(&journal)), 0, "no log"));
    }
}

/// The same through a whole start, for one bit of each kind.
#[test]
fn a_refused_start_changes_nothing() {
    let disk = killed(14);
    // Magic, identity and checksum of the log; identity, revision, length, checksum and body of its first record.
    for at in [0, 9, 25, 64, 81, 89, 97, 101] {
        for number in [0, 1] {
            let damaged = disk.picture();
            let file = path_of(path(), number);
            let mut log = disk.bytes(&file);
            log[at] ^= 4;
            damaged.put(&file, log);
            let before =
                [path().to_owned(), path_of(path(), 0), path_of(path(), 1)].map(|f| damaged.bytes(&f));
            if judge(open(&damaged).map(|journal| contents(&journal)), 14 * BATCH, &format!("byte {at}")) {
                let after =
                    [path().to_owned(), path_of(path(), 0), path_of(path(), 1)].map(|f| damaged.bytes(&f));
                assert!(before == after, "byte {at} of log {number}");
            }
        }
    }
}

/// After a stop all is in the object store, and after a kill what is not in it is in the journal. redb goes back to the
/// transaction before if the last one is damaged: then the journal has it still, or its absence is noticed.
#[test]
fn the_object_store_damaged_anywhere() {
    let stopped = Disk::default();
    let journal = open(&stopped).unwrap();
    (0..14).for_each(|n| journal.commit(&batch(n * BATCH)).unwrap());
    drop(journal);
    for (disk, which) in [(stopped, "stopped"), (killed(14), "killed")] {
        let whole = disk.bytes(path());
        let mut refused = 0;
        let interesting = |at: &usize| {
            let page = &whole[at / 4096 * 4096..][..4096];
            *at < 320 || (at.is_multiple_of(199) && page.iter().any(|byte| *byte != 0))
        };
        for at in (0..whole.len()).filter(interesting) {
            let damaged = disk.picture();
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            damaged.put(path(), bytes);
            let found = open(&damaged).map(|journal| contents(&journal));
            refused += u32::from(judge(found, 14 * BATCH, &format!("byte {at}, {which}")));
        }
        for length in [0, 1, 320, 4095, 4096, 4097, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
            let damaged = disk.picture();
            damaged.put(path(), whole[..length].to_vec());
            let found = open(&damaged).map(|journal| contents(&journal));
            refused += u32::from(judge(found, 14 * BATCH, &format!("{length} bytes, {which}")));
        }
        assert!(refused > 20, "{which}: {refused}");
    }
}

/// Whatever is damaged, salvage does not fail, and brings back nothing that was not written.
#[test]
fn salvage_of_an_object_store_damaged_anywhere() {
    let disk = killed(14);
    let whole = disk.bytes(path());
    let written: BTreeMap<u64, Write> =
        (0..14).flat_map(|n| batch(n * BATCH)).map(|w| (w.revision, w)).collect();
    let (_, all) = expected(14 * BATCH);
    let (mut some, mut tried) = (0, 0);
    for at in (0..whole.len())
        .filter(|at| at.is_multiple_of(211) && whole[at / 4096 * 4096..][..4096].iter().any(|b| *b != 0))
    {
        let damaged = disk.picture();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        damaged.put(path(), bytes);
        let found = gather(look(&damaged, path()).unwrap()).objects;
        for (key, (revision, json)) in &found {
            assert_eq!(
                (key, Some(json)),
                (&written[revision].key, written[revision].value.as_ref()),
                "byte {at}"
            );
        }
        tried += 1;
        some += u32::from(found.len() + 10 > all.len());
    }
    assert!(tried > 100 && some * 2 > tried, "{some} of {tried}");
}

/// An error at each call of a whole life: open, write, turn the logs, close. Whatever was answered is there afterwards.
#[test]
fn an_error_at_every_call() {
    for how in [
        How::default(),
        How { lies: true, ..How::default() },
        How { once: true, ..How::default() },
        How { reads: true, ..How::default() },
        How { reads: true, once: true, lies: true },
    ] {
        for begun in [false, true] {
            let mut calls = 0;
            while life_with_error(calls, how, begun) {
                calls += 1;
            }
            assert!(calls > 30, "{how:?} {begun}: {calls}");
        }
    }
}

/// True if the error was met.
fn life_with_error(call: i64, how: How, begun: bool) -> bool {
    let what = format!("call {call}, {how:?}, begun before: {begun}");
    let before = if begun { 5 * BATCH } else { 0 };
    let disk = if begun { killed(5) } else { Disk::default() };
    disk.arm(call, how);
    let mut answered = Vec::new();
    let mut refused = Vec::new();
    if let Ok(journal) = open(&disk) {
        for n in 0..8 {
            // Revisions of failed writes are not used again.
            let write = tests::put(before + 1 + n, &format!("n{n}"), &"v".repeat(200));
            let done = journal.commit(std::slice::from_ref(&write)).is_ok();
            (if done { &mut answered } else { &mut refused }).push(write.key);
        }
    }
    let met = disk.left() <= 0;
    disk.disarm();
    let journal = open(&disk.picture()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (_, objects) = contents(&journal);
    let (_, old) = expected(before);
    assert!(old.iter().all(|(key, value)| objects.get(key) == Some(value)), "{what}: {objects:?}");
    assert!(answered.iter().all(|key| objects.contains_key(key)), "{what}: {answered:?} {objects:?}");
    // A refused write may be there only if nothing was answered after it: the disk did not let us take it back.
    for key in refused.iter().filter(|key| answered.last() > Some(*key)) {
        assert!(!objects.contains_key(key), "{what}: {key} was refused");
    }
    journal.commit(&[tests::put(1000, "later", "{}")]).unwrap();
    drop(journal);
    met
}
