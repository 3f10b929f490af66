//! The version of the file's layout: newer opens older, older refuses newer.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError, WriteTransaction};

use super::{META, OBJECTS, failed};
use crate::store::backend::BackendError;

/// Newest layout this binary reads and writes. 2: a journal stands beside the file, and what is newer than the file's
/// revision is there.
pub(super) const FORMAT: u64 = 2;

/// `writer`: the last binary that wrote to the file. For the message of an older one that finds a newer file.
pub(super) const ABOUT: TableDefinition<'_, &str, &str> = TableDefinition::new("about");

const WRITER: &str = concat!("trainyard ", env!("CARGO_PKG_VERSION"));

/// Why a file that opened is still not usable.
pub(super) enum Unusable {
    Newer { found: u64, writer: Option<String> },
    Redb(redb::Error),
}

impl Unusable {
    pub(super) fn into_backend(self, path: &Path) -> BackendError {
        match self {
            Self::Newer { found, writer } => {
                let writer = writer.unwrap_or_else(|| "a trainyard".into());
                BackendError::Newer { writer, found, known: FORMAT }
            }
            Self::Redb(error) => failed(path, &error),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Unusable {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

/// Refuses a file of a newer format, before anything is written to it, and prepares an empty one.
pub(super) fn check(database: &Database) -> Result<(), Unusable> {
    let found = match database.begin_read()?.open_table(META) {
        Ok(table) => table.get("format")?.map(|v| v.value()),
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(error.into()),
    };
    match found {
        Some(found) if found > FORMAT => return Err(Unusable::Newer { found, writer: writer(database)? }),
        Some(_) => return Ok(()),
        None => {}
    }
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        transaction.open_table(META)?.insert("revision", 0)?;
        transaction.open_table(OBJECTS)?;
        sign(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}

fn writer(database: &Database) -> Result<Option<String>, redb::Error> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(table) => Ok(table.get("writer")?.map(|v| v.value().to_owned())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Notes who writes, and how. Part of the first commit of every start, so that opening a file never writes to it.
pub(super) fn sign(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert("format", FORMAT)?;
    transaction.open_table(ABOUT)?.insert("writer", WRITER)?;
    Ok(())
}
