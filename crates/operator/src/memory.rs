//! What the last answers to our own writes were, per job: so that refusals can be explained and retried by decision.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trainyard_core::{Resource, WriteFailure};

use crate::queue::Key;

/// Refusals by job. Jobs without any take no room.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    jobs: BTreeMap<Key, Refusals>,
}

#[derive(Debug, Default)]
struct Refusals {
    /// A refusal concerns one spec of one job: whoever corrects it need not wait.
    spec: u64,
    list: Vec<WriteFailure>,
}

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) what: &'static Resource,
    pub(crate) name: String,
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Memory {
    /// The refusals that concern this spec.
    pub(crate) fn failures(&mut self, key: &Key, spec: u64) -> Vec<WriteFailure> {
        if self.jobs.get(key).is_some_and(|refusals| refusals.spec != spec) {
            self.jobs.remove(key);
        }
        self.jobs.get(key).map(|refusals| refusals.list.clone()).unwrap_or_default()
    }

    /// A write was refused, or the server had trouble with it. Says whether that is worth a word.
    pub(crate) fn refused(&mut self, key: &Key, spec: u64, refusal: Refusal, at: Timestamp) -> bool {
        let refusals = self.jobs.entry(key.clone()).or_default();
        refusals.spec = spec;
        let Refusal { what, name, code, message } = refusal;
        let known = refusals.list.iter().position(|f| f.what == what && f.name == name);
        let before = known.map(|at| refusals.list.swap_remove(at));
        let is_trouble = |code: u16| code >= 500;
        let failure = match before {
            // Trouble of the server's says nothing about what it refused before.
            Some(before) if is_trouble(code) && !is_trouble(before.code) => before,
            Some(before) if is_trouble(code) == is_trouble(before.code) => {
                WriteFailure { what, name, code, message, at, count: before.count.saturating_add(1) }
            }
            Some(_) | None => WriteFailure { what, name, code, message, at, count: 1 },
        };
        let lasting = failure.is_lasting();
        refusals.list.push(failure);
        refusals.list.sort_by(|a, b| (a.what.kind, &a.name).cmp(&(b.what.kind, &b.name)));
        lasting
    }

    /// A write was granted, or what stood in its way is gone.
    pub(crate) fn cleared(&mut self, key: &Key, what: &'static Resource, name: &str) {
        let Some(refusals) = self.jobs.get_mut(key) else { return };
        refusals.list.retain(|f| f.what != what || f.name != name);
        if refusals.list.is_empty() {
            self.jobs.remove(key);
        }
    }

    /// The job is gone.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.jobs.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use trainyard_core::Catalog;

    use super::*;

    #[test]
    fn refusals_count_up_until_granted_or_the_spec_changes() {
        let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
        let mut memory = Memory::default();
        let refusal = |name: &str| Refusal {
            what: &Resource::POD,
            name: name.into(),
            code: 403,
            message: "quota".into(),
        };
        for second in 0..3 {
            memory.refused(&key, 1, refusal("a"), Timestamp::from_second(second).unwrap());
        }
        memory.refused(&key, 1, refusal("b"), Timestamp::UNIX_EPOCH);
        let counts =
            |list: Vec<WriteFailure>| list.iter().map(|f| (f.name.clone(), f.count)).collect::<Vec<_>>();
        assert_eq!(counts(memory.failures(&key, 1)), [("a".into(), 3), ("b".into(), 1)]);
        memory.cleared(&key, &Resource::SERVICE, "a");
        memory.cleared(&key, &Resource::POD, "b");
        assert_eq!(counts(memory.failures(&key, 1)), [("a".into(), 3)]);
        assert!(memory.failures(&key, 2).is_empty(), "the user corrected the spec");
        assert!(memory.failures(&key, 1).is_empty());
    }

    #[test]
    fn trouble_of_the_server_is_worth_a_word_when_it_lasts() {
        let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
        let mut memory = Memory::default();
        let mut refused = |code: u16| {
            let refusal = Refusal { what: &Resource::POD, name: "a".into(), code, message: "no".into() };
            let told = memory.refused(&key, 1, refusal, Timestamp::UNIX_EPOCH);
            (told, memory.failures(&key, 1)[0].code, memory.failures(&key, 1)[0].count)
        };
        assert_eq!(refused(500), (false, 500, 1));
        assert_eq!(refused(503), (false, 503, 2));
        assert_eq!(refused(500), (true, 500, 3));
        assert_eq!(refused(403), (true, 403, 1), "the server means it");
        assert_eq!(refused(500), (true, 403, 1), "and trouble does not change that");
    }
}
