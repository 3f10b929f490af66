//! Which user each namespace has: given once, written down before it is used, never given to another.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Tenant, UidRange};
use crate::disk::namespace_dir;
use crate::runtime::files::write_whole;

/// The file in the data directory.
const FILE: &str = "uids.json";

/// Users by the UID of the namespace: one that is deleted and made anew is another, whose people may be others too.
/// Entries are never removed, since files of their users may be anywhere on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    namespaces: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// For people who read the file.
    name: String,
    user: u32,
}

impl Book {
    /// The user of a namespace, and whether it was given just now.
    fn user(&mut self, uid: &str, name: &str, range: UidRange) -> Result<(u32, bool), String> {
        if let Some(entry) = self.namespaces.get(uid) {
            return Ok((entry.user, false));
        }
        let given = self.namespaces.values().map(|entry| entry.user);
        let newest = given.filter(|user| (range.first..=range.last).contains(user)).max();
        let user = newest.map_or(Some(range.first), |newest| newest.checked_add(1));
        let Some(user) = user.filter(|user| *user <= range.last) else {
            return Err(format!(
                "there is no user left for namespace {name:?}: all of --uids {range} were given; start `up` with more"
            ));
        };
        self.namespaces.insert(uid.to_owned(), Entry { name: name.to_owned(), user });
        Ok((user, true))
    }
}

/// The users of a data directory.
#[derive(Debug)]
pub(crate) struct Users {
    root: PathBuf,
    range: UidRange,
    /// What the file says, once it was read.
    book: Mutex<Option<Book>>,
}

impl Users {
    pub(crate) fn new(root: PathBuf, range: UidRange) -> Self {
        Self { root, range, book: Mutex::new(None) }
    }

    /// The namespace as a user of this machine, with what the user needs on disk.
    ///
    /// # Errors
    /// When the range is used up, or a file cannot be read or written: then nobody of the namespace may start.
    pub(crate) fn tenant(&self, uid: &str, name: &str) -> Result<Tenant, String> {
        // Held to the end: two containers that start at once must not write the same files.
        let mut known = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let user = self.user(&mut known, uid, name)?;
        let dir = namespace_dir(&self.root, uid);
        Tenant::admit(name, user, dir.clone()).map_err(|error| format!("{}: {error}", dir.display()))
    }

    /// The user of a namespace. A new one is on disk when this returns.
    fn user(&self, known: &mut Option<Book>, uid: &str, name: &str) -> Result<u32, String> {
        let path = self.root.join(FILE);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut book = match known.take() {
            Some(book) => book,
            None => self.read().map_err(failed)?,
        };
        let (user, is_new) = book.user(uid, name, self.range)?;
        if is_new {
            let json = serde_json::to_vec_pretty(&book).map_err(|error| failed(error.into()))?;
            write_whole(&self.root, FILE, &json).map_err(failed)?;
        }
        *known = Some(book);
        Ok(user)
    }

    fn read(&self) -> io::Result<Book> {
        match fs::read(self.root.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::default()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: UidRange = UidRange { first: 100, last: 102 };

    #[test]
    fn a_namespace_keeps_its_user_and_a_new_one_of_its_name_gets_another() {
        let mut book = Book::default();
        assert_eq!(book.user("u1", "a", RANGE), Ok((100, true)));
        assert_eq!(book.user("u2", "b", RANGE), Ok((101, true)));
        assert_eq!(book.user("u1", "a", RANGE), Ok((100, false)));
        assert_eq!(book.user("u3", "a", RANGE), Ok((102, true)));
        let full = book.user("u4", "d", RANGE).unwrap_err();
        assert!(full.contains("--uids 100-102") && full.contains("\"d\""), "{full}");
    }

    #[test]
    fn another_range_leaves_what_was_given() {
        let mut book = Book::default();
        book.user("u1", "a", RANGE).unwrap();
        let other = UidRange { first: 90, last: 200 };
        assert_eq!(book.user("u1", "a", other), Ok((100, false)));
        assert_eq!(book.user("u2", "b", other), Ok((101, true)));
        let apart = UidRange { first: 7, last: 7 };
        assert_eq!(book.user("u3", "c", apart), Ok((7, true)));
        let end = UidRange { first: u32::MAX, last: u32::MAX };
        assert_eq!(book.user("u4", "d", end), Ok((u32::MAX, true)));
        assert!(book.user("u5", "e", end).is_err());
    }

    #[test]
    fn what_was_given_is_on_disk_and_a_damaged_file_is_never_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let users = || Users::new(dir.path().to_owned(), RANGE);
        let first = users().tenant("u1", "a").unwrap();
        assert_eq!((first.user, first.dir.clone()), (100, dir.path().join("namespaces/u1")));
        assert_eq!(users().tenant("u2", "b").unwrap().user, 101);
        assert_eq!(users().tenant("u1", "a").unwrap(), first);
        fs::write(dir.path().join(FILE), "{").unwrap();
        let damaged = users().tenant("u3", "c").unwrap_err();
        assert!(damaged.contains(FILE), "{damaged}");
        assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), "{");
    }
}
