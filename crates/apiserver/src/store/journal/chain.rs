//! Whether all that was answered is there. Pure.

use super::record::Record;
use crate::store::backend::Write;

/// Why records and object store do not make a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// A record follows another that is not there.
    Before { revision: u64, reached: u64 },
    /// Writes up to a revision were answered, and there are fewer.
    End { answered: u64, reached: u64 },
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before { revision, reached } => write!(
                f,
                "the journal has writes after revision {revision}, but those between revision {reached} and it are \
                 missing or damaged"
            ),
            Self::End { answered, reached } => write!(
                f,
                "writes up to revision {answered} were acknowledged, but those after revision {reached} are missing or \
                 damaged"
            ),
        }
    }
}

/// The writes that the object store does not have, in order.
///
/// `known` is the store's revision, and `answered` one up to which writes were certainly acknowledged. Each record names
/// the revision that it follows, so what is missing between two of them, or between the store and the first, shows.
/// Bytes that are no record are not here at all: at the end they are a write that was never acknowledged.
pub(super) fn link(known: u64, mut records: Vec<Record>, answered: u64) -> Result<Vec<Write>, Gap> {
    records.retain(|record| record.last() > known);
    records.sort_by_key(Record::last);
    let (mut reached, mut writes) = (known, Vec::new());
    for record in records {
        if record.previous != reached {
            return Err(Gap::Before { revision: record.previous, reached });
        }
        reached = record.last();
        writes.extend(record.writes);
    }
    if reached < answered {
        return Err(Gap::End { answered, reached });
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(previous: u64, revisions: &[u64]) -> Record {
        let write = |revision: &u64| Write { revision: *revision, key: format!("k{revision}"), value: None };
        Record { previous, writes: revisions.iter().map(write).collect(), end: 0 }
    }

    fn linked(known: u64, records: Vec<Record>, answered: u64) -> Result<Vec<u64>, Gap> {
        link(known, records, answered).map(|writes| writes.iter().map(|write| write.revision).collect())
    }

    #[test]
    fn records_follow_the_store_and_each_other() {
        let all = || vec![record(7, &[8]), record(0, &[1, 2]), record(4, &[6, 7]), record(2, &[3, 4])];
        assert_eq!(linked(4, all(), 8), Ok(vec![6, 7, 8]));
        assert_eq!(linked(0, all(), 0), Ok(vec![1, 2, 3, 4, 6, 7, 8]));
        assert_eq!(linked(8, all(), 8), Ok(vec![]));
        assert_eq!(linked(20, all(), 8), Ok(vec![]), "the store has it all");
    }

    #[test]
    fn what_is_missing_shows() {
        let before = |revision, reached| Err(Gap::Before { revision, reached });
        assert_eq!(linked(0, vec![record(0, &[1]), record(3, &[4])], 4), before(3, 1));
        assert_eq!(linked(1, vec![record(3, &[4])], 4), before(3, 1), "between the store and the journal");
        assert_eq!(linked(1, vec![record(1, &[2])], 3), Err(Gap::End { answered: 3, reached: 2 }));
        assert_eq!(linked(3, vec![record(2, &[5])], 5), before(2, 3), "another history");
    }
}
