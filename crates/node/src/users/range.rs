//! The users that namespaces are given.

use std::fs;

/// User and group numbers for namespaces, the first and the last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UidRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// The largest number that a manifest can name.
const LARGEST: u32 = 2_147_483_647;

impl UidRange {
    /// Reads `FIRST-LAST`.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|n| (1..=LARGEST).contains(n));
        let range = text.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        match range {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!(
                "{text:?} is no range of users: write FIRST-LAST, both from 1 to {LARGEST}, for example 2000000000-2000065535"
            )),
        }
    }

    /// Looks whether the numbers are free on this machine, and can be used on it.
    ///
    /// # Errors
    /// What is in the way and what to do.
    pub fn check_machine(self) -> Result<(), String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        for file in ["/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid"] {
            let (text, is_block) = (read(file), file.starts_with("/etc/sub"));
            if let Some(owner) = self.taken_by(&text, is_block) {
                return Err(format!(
                    "{self} is not free: {file} gives a part of it to {owner}; choose other numbers"
                ));
            }
        }
        for file in ["/proc/self/uid_map", "/proc/self/gid_map"] {
            if !self.is_mapped(&read(file)) {
                return Err(format!(
                    "{self} does not exist in this user namespace ({file}); choose numbers that do"
                ));
            }
        }
        Ok(())
    }

    /// Who has one of the numbers: by a line `name:x:NUMBER`, or for blocks `name:FIRST:COUNT`.
    fn taken_by(self, text: &str, is_block: bool) -> Option<&str> {
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, second, third) =
                (fields.next()?, fields.next()?, fields.next()?.trim().parse::<u64>().ok()?);
            let (first, count) =
                if is_block { (second.trim().parse::<u64>().ok()?, third) } else { (third, 1) };
            let ours = u64::from(self.first)..=u64::from(self.last);
            let overlaps = count > 0 && first <= *ours.end() && first.saturating_add(count) > *ours.start();
            overlaps.then_some(name)
        })
    }

    /// Whether a map of user namespaces has all numbers in one of its lines. Without a map there is nothing to say.
    fn is_mapped(self, map: &str) -> bool {
        let within = |line: &str| {
            let mut numbers = line.split_whitespace().map(str::parse::<u64>);
            let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                return false;
            };
            first <= u64::from(self.first) && u64::from(self.last) < first.saturating_add(count)
        };
        map.trim().is_empty() || map.lines().any(within)
    }
}

impl std::fmt::Display for UidRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_in_order_and_never_root() {
        assert_eq!(UidRange::parse("5-9"), Ok(UidRange { first: 5, last: 9 }));
        assert_eq!(UidRange::parse("7 - 7"), Ok(UidRange { first: 7, last: 7 }));
        for wrong in ["", "5", "9-5", "0-5", "a-b", "1-2147483648", "-1-5"] {
            assert!(UidRange::parse(wrong).unwrap_err().contains("FIRST-LAST"), "{wrong}");
        }
    }

    #[test]
    fn numbers_of_others_are_found() {
        let range = UidRange { first: 100, last: 199 };
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\nann:x:100:100::/:/bin/sh\n";
        assert_eq!(range.taken_by(passwd, false), Some("ann"));
        assert_eq!(UidRange { first: 101, last: 199 }.taken_by(passwd, false), None);
        for (block, taken) in
            [("bob:50:50", false), ("bob:50:51", true), ("bob:199:1", true), ("bob:200:9", false)]
        {
            assert_eq!(range.taken_by(block, true).is_some(), taken, "{block}");
        }
    }

    #[test]
    fn numbers_outside_of_a_user_namespace_are_found() {
        let range = UidRange { first: 100, last: 199 };
        assert!(range.is_mapped("         0          0 4294967295\n"));
        assert!(range.is_mapped("0 5000 50\n100 6000 100\n"));
        assert!(!range.is_mapped("0 5000 199\n"));
        assert!(range.is_mapped(""));
    }
}
