//! Directories of the layout before, and what is brought back of damaged ones.

use std::fs;

use bytes::Bytes;

use super::tests::{contents, put, remove};
use super::*;
use crate::store::redb::tests::write_format_2;

/// A record as releases before the chained journal wrote it.
fn old_record(writes: &[Write]) -> Vec<u8> {
    let mut body = Vec::new();
    batch::encode(writes, &mut body).unwrap();
    let length = (body.len() as u64).to_le_bytes();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(&body);
    [length.to_vec(), sum.finalize().to_le_bytes().to_vec(), body].concat()
}

fn object(revision: u64, name: &str) -> Write {
    put(revision, &format!("/configmaps/default/{name}"), &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#))
}

/// A directory of layout 2: three objects in the file, two more and a removal in the logs, and older records behind them.
fn old_directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.redb");
    write_format_2(&path, 3, &[object(1, "a"), object(2, "b"), object(3, "c")]);
    let stale = old_record(&[object(1, "a")]);
    let gone = remove(6, "/configmaps/default/a");
    let logs =
        [[old_record(&[object(4, "d")]), old_record(&[object(5, "e")]), stale].concat(), old_record(&[gone])];
    for (number, log) in logs.iter().enumerate() {
        fs::write(path_of(&path, number), log).unwrap();
    }
    (directory, path)
}

fn names(journal: &Journal) -> Vec<String> {
    contents(journal).1.into_keys().map(|key| key.rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn a_directory_of_the_layout_before_is_upgraded() {
    let (_directory, path) = old_directory();
    let journal = Journal::open(&path).unwrap();
    assert_eq!((names(&journal).join(" "), contents(&journal).0), ("b c d e".to_owned(), 6));
    journal.commit(&[object(7, "f")]).unwrap();
    drop(journal);
    let journal = Journal::open(&path).unwrap();
    assert_eq!((names(&journal).join(" "), contents(&journal).0), ("b c d e f".to_owned(), 7));
}

#[test]
fn damage_in_the_layout_before_is_noticed_as_far_as_it_shows() {
    let (_directory, path) = old_directory();
    let log = path_of(&path, 0);
    let mut bytes = fs::read(&log).unwrap();
    bytes[20] ^= 1;
    fs::write(&log, bytes).unwrap();
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(error.contains("objects.journal-0: newer writes stand behind damaged ones"), "{error}");
    let salvaged = salvage(&path).unwrap().unwrap();
    assert_eq!(salvaged.objects, 3);
    assert_eq!(names(&Journal::open(&path).unwrap()).join(" "), "b c e");
}

/// Three objects in the file, then four batches in the journal, and a kill.
fn killed() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.redb");
    let journal = Journal::open(&path).unwrap();
    journal.commit(&[object(1, "a"), object(2, "b"), object(3, "c")]).unwrap();
    drop(journal);
    let journal = Journal::open(&path).unwrap();
    for (revision, name) in [(4, "d"), (5, "e"), (6, "f"), (7, "g")] {
        journal.commit(&[object(revision, name)]).unwrap();
    }
    let after = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory.path()).unwrap().flatten() {
        fs::copy(entry.path(), after.path().join(entry.file_name())).unwrap();
    }
    drop(journal);
    let path = after.path().join("objects.redb");
    (after, path)
}

fn flip(file: &Path, needle: &[u8]) {
    let mut bytes = fs::read(file).unwrap();
    let at = memchr::memmem::find(&bytes, needle).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn what_is_whole_needs_no_salvage() {
    let (_directory, path) = killed();
    assert!(salvage(&path).unwrap().is_none());
    assert_eq!(names(&Journal::open(&path).unwrap()).join(" "), "a b c d e f g");
}

/// A bit in the middle of the journal costs its record and no other.
#[test]
fn salvage_brings_back_what_stands_behind_the_damage() {
    let (directory, path) = killed();
    flip(&path_of(&path, 0), b"default/e");
    let error = Journal::open(&path).unwrap_err();
    assert!(matches!(error, BackendError::Damaged { .. }), "{error}");
    let salvaged = salvage(&path).unwrap().unwrap();
    assert_eq!(salvaged.lost, ["writes of the journal after revision 4, up to revision 5"]);
    assert_eq!((salvaged.objects, salvaged.kept_in.clone()), (6, directory.path().join("damaged-1")));
    let journal = Journal::open(&path).unwrap();
    assert_eq!(names(&journal).join(" "), "a b c d f g");
    assert!(contents(&journal).0 > 1_000_000_000, "clients have to list again");
    drop(journal);
    // The damaged files are as they were.
    let error = Journal::open(&salvaged.kept_in.join("objects.redb")).unwrap_err();
    assert!(matches!(error, BackendError::Damaged { .. }), "{error}");
    assert!(salvage(&path).unwrap().is_none(), "once is enough");
}

/// A bit in an object costs that object, unless the journal has it too.
#[test]
fn one_unreadable_object_blocks_no_other() {
    let (_directory, path) = killed();
    flip(&path, br#""name":"b""#);
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(error.contains("objects.redb"), "{error}");
    let salvaged = salvage(&path).unwrap().unwrap();
    assert!(salvaged.lost.iter().any(|lost| lost == "object /configmaps/default/b"), "{:?}", salvaged.lost);
    assert_eq!(names(&Journal::open(&path).unwrap()).join(" "), "a c d e f g");
}

/// Also one that was written as it is, and that no server can read.
#[test]
fn an_object_that_is_no_json_blocks_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.redb");
    let journal = Journal::open(&path).unwrap();
    journal.commit(&[object(1, "a"), put(2, "/configmaps/default/odd", "{")]).unwrap();
    drop(journal);
    let salvaged = salvage(&path).unwrap().unwrap();
    assert_eq!(salvaged.lost, ["object /configmaps/default/odd"]);
    assert_eq!(names(&Journal::open(&path).unwrap()), ["a"]);
}

/// Without the object store there is still the journal.
#[test]
fn a_missing_object_store_is_not_a_new_one() {
    for bytes in [None, Some(Vec::new()), Some(vec![9; 5000])] {
        let (_directory, path) = killed();
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = Journal::open(&path).unwrap_err();
        assert!(matches!(error, BackendError::Damaged { .. }), "{error}");
        let salvaged = salvage(&path).unwrap().unwrap();
        // The first three records are of the time before, and were written over.
        assert_eq!(names(&Journal::open(&path).unwrap()).join(" "), "d e f g", "{:?}", salvaged.lost);
    }
}

#[test]
fn a_restored_store_is_above_everything_that_was_known() {
    let (_directory, path) = killed();
    let backup = |revision, names: &[&str]| -> Bytes {
        let objects = names.iter().map(|name| object(revision, name));
        let objects = objects.map(|write| (write.key, write.revision, write.value.unwrap())).collect();
        crate::store::backup::of_loaded(Loaded { revision, objects }).flatten().collect::<Vec<u8>>().into()
    };
    let (objects, before) = restore(&path, backup(3, &["a", "z"])).unwrap();
    assert_eq!((objects, before.unwrap().file_name().unwrap().to_str().unwrap()), (2, "replaced-1"));
    let journal = Journal::open(&path).unwrap();
    assert_eq!(names(&journal).join(" "), "a z");
    let first = contents(&journal).0;
    assert!(first > 1_000_000_000);
    drop(journal);
    // Again, from a backup of before.
    restore(&path, backup(3, &["a"])).unwrap();
    assert!(contents(&Journal::open(&path).unwrap()).0 > first + 1_000_000);
    let cut = backup(3, &["a"]);
    assert!(restore(&path, cut.slice(..cut.len() - 1)).is_err());
    assert_eq!(names(&Journal::open(&path).unwrap()).join(" "), "a");
}
