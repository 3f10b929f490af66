//! The version of the file's layout: newer opens older, older refuses newer.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError, WriteTransaction};

use super::{META, OBJECTS, failed, value};
use crate::store::backend::BackendError;
use crate::store::identity::Identity;

/// Newest layout this binary reads and writes. 2: a journal stands beside the file, and what is newer than the file's
/// revision is there. 3: the store has an identity, its journal is chained, and every object has a checksum.
pub(in crate::store) const FORMAT: u64 = 3;

/// `writer`: the last binary that wrote to the file. For the message of an older one that finds a newer file.
pub(super) const ABOUT: TableDefinition<'_, &str, &str> = TableDefinition::new("about");

const WRITER: &str = concat!("trainyard ", env!("CARGO_PKG_VERSION"));

/// What a file says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Head {
    pub(in crate::store) format: u64,
    /// The last revision that is in the file.
    pub(in crate::store) revision: u64,
    /// Nothing before format 3.
    pub(in crate::store) identity: Option<Identity>,
    /// Whether both logs of the journal were made and belong to this file.
    pub(in crate::store) journaled: bool,
}

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

/// What the file says about itself; nothing if it is new.
pub(super) fn head(database: &Database) -> Result<Option<Head>, Unusable> {
    let table = match database.begin_read()?.open_table(META) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let number = |name: &str| table.get(name).map(|found| found.map(|v| v.value()));
    let Some(format) = number("format")? else { return Ok(None) };
    if format > FORMAT {
        return Err(Unusable::Newer { found: format, writer: writer(database)? });
    }
    let identity = match (number("identity-high")?, number("identity-low")?) {
        (Some(high), Some(low)) => Some(Identity::from_numbers(high, low)),
        _ => None,
    };
    let journaled = number("journaled")? == Some(1);
    Ok(Some(Head { format, revision: number("revision")?.unwrap_or(0), identity, journaled }))
}

fn writer(database: &Database) -> Result<Option<String>, redb::Error> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(table) => Ok(table.get("writer")?.map(|v| v.value().to_owned())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes a whole store in one transaction, whatever was in the file: a new one, one of an older format, one that was
/// brought back. Its journal has to be made afterwards.
pub(super) fn fill<'a>(
    database: &Database,
    identity: Identity,
    revision: u64,
    objects: impl IntoIterator<Item = (&'a str, u64, &'a [u8])>,
) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    make_durable(&mut transaction)?;
    transaction.delete_table(OBJECTS)?;
    {
        let mut table = transaction.open_table(OBJECTS)?;
        for (key, revision, json) in objects {
            table.insert(key, (revision, value::seal(key, revision, json).as_slice()))?;
        }
        let mut meta = transaction.open_table(META)?;
        let (high, low) = identity.numbers();
        for (name, number) in
            [("revision", revision), ("identity-high", high), ("identity-low", low), ("journaled", 0)]
        {
            meta.insert(name, number)?;
        }
    }
    sign(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Notes that both logs belong to this file from now on: if one is missing, that is damage.
pub(super) fn set_journaled(database: &Database) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    make_durable(&mut transaction)?;
    transaction.open_table(META)?.insert("journaled", 1)?;
    transaction.commit()?;
    Ok(())
}

/// What is committed is on the disk, and can be read after a crash without a repair: redb's repair gives up the whole file if
/// one page of it is damaged.
pub(super) fn make_durable(transaction: &mut WriteTransaction) -> Result<(), redb::Error> {
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    Ok(())
}

/// Notes who writes, and how. Part of the first commit of every start, so that opening a file never writes to it.
pub(super) fn sign(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert("format", FORMAT)?;
    transaction.open_table(ABOUT)?.insert("writer", WRITER)?;
    Ok(())
}
