//! Sets of completion indexes, and their short spelling: `1,3-5,7`.

use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<i64>);

impl Indexes {
    /// Reads the short spelling. What is no index of a job with so many completions is left out.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut set = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
                set.extend(first.max(0)..=last.min(completions - 1));
            }
        }
        Self(set)
    }

    pub(super) fn insert(&mut self, index: i64) {
        self.0.insert(index);
    }

    pub(super) fn has(&self, index: i64) -> bool {
        self.0.contains(&index)
    }

    pub(super) fn len(&self) -> i64 {
        i64::try_from(self.0.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in both.
    pub(super) fn common(&self, other: &Self) -> i64 {
        i64::try_from(self.0.intersection(&other.0).count()).unwrap_or(i64::MAX)
    }

    /// The short spelling: two neighbours are a list, three are a range.
    pub(super) fn text(&self) -> String {
        let mut parts: Vec<(i64, i64)> = Vec::new();
        for index in &self.0 {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => parts.push((*index, *index)),
            }
        }
        let spelled = parts.iter().map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        });
        spelled.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_spelling_goes_both_ways() {
        for text in ["", "0", "1,2", "0-2", "1,3-5,7,8"] {
            assert_eq!(Indexes::parse(text, 10).text(), text);
        }
        assert_eq!(Indexes::parse("8-20,x", 10).text(), "8,9");
    }
}
