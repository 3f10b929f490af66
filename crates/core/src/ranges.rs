//! Indexes as ranges: `0-2,7`. A record has to fit into an annotation, also that of a job with ten thousand replicas.
//!
//! Releases before this one wrote lists and maps of single indexes; these are read too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::validate::MAX_REPLICAS;

/// Writes indexes as ranges.
fn render(indexes: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let runs = runs.into_iter();
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    runs.map(text).collect::<Vec<_>>().join(",")
}

/// Reads ranges. Indexes that no replica can have are left out: users can write here, and a number must not become a
/// list of four billion.
fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let mut indexes = BTreeSet::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        indexes.extend(first..=last.min(MAX_REPLICAS));
    }
    Some(indexes)
}

fn unreadable<E: serde::de::Error>(text: &str) -> E {
    E::custom(format!("{text:?} is no list of ranges such as \"0-2,7\""))
}

/// Sets of indexes by role.
pub(crate) mod sets {
    use super::*;

    type Sets = BTreeMap<String, BTreeSet<u32>>;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Ranges(String),
        List(BTreeSet<u32>),
    }

    pub(crate) fn serialize<S: serde::Serializer>(sets: &Sets, to: S) -> Result<S::Ok, S::Error> {
        let texts: BTreeMap<&str, String> =
            sets.iter().map(|(role, set)| (role.as_str(), render(set.iter().copied()))).collect();
        texts.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Sets, D::Error> {
        let stored = BTreeMap::<String, Stored>::deserialize(from)?;
        let set = |stored: Stored| match stored {
            Stored::Ranges(text) => parse(&text).ok_or_else(|| unreadable(&text)),
            Stored::List(set) => Ok(set),
        };
        stored.into_iter().map(|(role, stored)| Ok((role, set(stored)?))).collect()
    }
}

/// Counts of indexes by role: `{"1": "0-2,7"}` says that each of these counts 1.
pub(crate) mod counts {
    use super::*;

    type Counts = BTreeMap<String, BTreeMap<u32, u32>>;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        /// By count.
        Ranges(BTreeMap<String, String>),
        /// By index.
        Single(BTreeMap<String, u32>),
    }

    pub(crate) fn serialize<S: serde::Serializer>(counts: &Counts, to: S) -> Result<S::Ok, S::Error> {
        let texts: BTreeMap<&str, BTreeMap<u32, String>> = counts
            .iter()
            .map(|(role, by_index)| {
                let mut by_count: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
                for (index, count) in by_index {
                    by_count.entry(*count).or_default().insert(*index);
                }
                let texts = by_count.into_iter().map(|(count, indexes)| (count, render(indexes)));
                (role.as_str(), texts.collect())
            })
            .collect();
        texts.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Counts, D::Error> {
        let stored = BTreeMap::<String, Stored>::deserialize(from)?;
        stored.into_iter().map(|(role, stored)| Ok((role, by_index(stored)?))).collect()
    }

    fn by_index<E: serde::de::Error>(stored: Stored) -> Result<BTreeMap<u32, u32>, E> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| unreadable(text));
        match stored {
            Stored::Single(counts) => {
                counts.iter().map(|(index, count)| Ok((number(index)?, *count))).collect()
            }
            Stored::Ranges(texts) => {
                let mut counts = BTreeMap::new();
                for (count, text) in &texts {
                    let count = number(count)?;
                    let indexes = parse(text).ok_or_else(|| unreadable(text))?;
                    counts.extend(indexes.into_iter().map(|index| (index, count)));
                }
                Ok(counts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![0, 1, 2, 7], "0-2,7"),
            (vec![1, 3, 5], "1,3,5"),
            (vec![8, 9], "8-9"),
        ] {
            assert_eq!(render(indexes.iter().copied()), text);
            assert_eq!(parse(text), Some(indexes.into_iter().collect()));
        }
    }

    #[test]
    fn what_is_no_range_is_refused_and_what_is_too_long_is_cut() {
        for text in ["a", "1-", "-1", "1-2-3", "4294967296"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("0-4294967295").map(|set| set.len()), Some(10_001));
        assert_eq!(parse("7-2"), Some(BTreeSet::new()));
    }
}
