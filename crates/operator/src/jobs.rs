//! The jobs, as the text they came in.
//!
//! A job is decoded when it is looked at and not before: ten thousand decoded jobs would take ten times the memory
//! of their JSON, and almost all of them rest.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use trainyard_core::{Kind, Record};

use crate::queue::Key;
use crate::wire::{self, JobWire};

/// A job as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The whole object.
    pub(crate) raw: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// `metadata.resourceVersion`, as text: that is what conditions on it are made of.
    pub(crate) version: Arc<str>,
    pub(crate) deleting: bool,
    /// Changes when the spec does.
    pub(crate) spec: u64,
    /// True when its record names host ports.
    pub(crate) claims_ports: bool,
    pub(crate) number: u64,
}

impl Job {
    /// Reads what must be known of a job before it is decoded.
    pub(crate) fn read(kind: &'static Kind, raw: &str) -> Result<(Key, Self), serde_json::Error> {
        let object: JobWire<'_> = serde_json::from_str(raw)?;
        let meta = object.metadata.check()?;
        let record = meta.annotations.as_ref().and_then(|annotations| annotations.record.as_deref());
        let job = Self {
            raw: raw.into(),
            uid: Arc::from(&*meta.uid),
            number: wire::number(&meta.resource_version),
            version: Arc::from(&*meta.resource_version),
            deleting: meta.deletion_timestamp.is_some(),
            spec: fingerprint(object.spec.map_or("", |spec| spec.get())),
            claims_ports: record
                .is_some_and(|text| Record::parse(text).is_ok_and(|record| record.ports.is_some())),
        };
        Ok((Key::new(kind, &meta.namespace, &meta.name), job))
    }
}

fn fingerprint(text: &str) -> u64 {
    // With fixed keys: the same in every run.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// All jobs, of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: BTreeMap<Key, Job>,
    /// How far the watch of each kind has come.
    watched: BTreeMap<&'static str, u64>,
}

impl Jobs {
    pub(crate) fn get(&self, key: &Key) -> Option<&Job> {
        self.jobs.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.jobs.keys().cloned().collect()
    }

    /// The watch shows a job. Returns whether that is news, and the identity of a job of the same name before it.
    pub(crate) fn show(&mut self, key: Key, job: Job) -> (bool, Option<Arc<str>>) {
        self.advance(key.kind(), job.number);
        self.put(key, job)
    }

    /// An answer shows a job. It is news only beyond what the watch has told.
    pub(crate) fn learn(&mut self, key: Key, job: Job) -> (bool, Option<Arc<str>>) {
        if job.number <= self.watched(key.kind()) { (false, None) } else { self.put(key, job) }
    }

    /// This very job is gone. Says whether it was known.
    pub(crate) fn remove(&mut self, key: &Key, uid: &str) -> bool {
        let known = self.jobs.get(key).is_some_and(|job| &*job.uid == uid);
        if known {
            self.jobs.remove(key);
        }
        known
    }

    /// A complete list of a kind, made at `version`, is about to be shown; see
    /// [`Children::begin_list`](crate::children::Children::begin_list).
    pub(crate) fn begin_list(&mut self, kind: &'static Kind, version: u64) {
        if version < self.watched(kind) {
            self.watched.insert(kind.name, version);
            let of_kind = self.jobs.iter_mut().filter(|(key, _)| key.kind().name == kind.name);
            of_kind.for_each(|(_, job)| job.number = 0);
        }
    }

    /// A complete list of a kind was made at `version`: what is not in it is gone, unless it is younger.
    pub(crate) fn keep_only(
        &mut self,
        kind: &'static Kind,
        uids: &BTreeSet<Box<str>>,
        version: u64,
    ) -> Vec<(Key, Job)> {
        self.advance(kind, version);
        let gone = |key: &Key, job: &mut Job| {
            key.kind().name == kind.name
                && !uids.contains(&*job.uid)
                && (job.number <= version || version == 0)
        };
        self.jobs.extract_if(.., gone).collect()
    }

    /// The watch of a kind has come this far.
    pub(crate) fn advance(&mut self, kind: &'static Kind, version: u64) {
        let watched = self.watched.entry(kind.name).or_default();
        *watched = version.max(*watched);
    }

    fn watched(&self, kind: &'static Kind) -> u64 {
        self.watched.get(kind.name).copied().unwrap_or(0)
    }

    fn put(&mut self, key: Key, job: Job) -> (bool, Option<Arc<str>>) {
        let known = self.jobs.get(&key);
        let old = known.is_some_and(|known| job.number != 0 && job.number <= known.number);
        if old {
            return (false, None);
        }
        let replaced = known.filter(|known| known.uid != job.uid).map(|known| Arc::clone(&known.uid));
        self.jobs.insert(key, job);
        (true, replaced)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trainyard_core::Catalog;

    use super::*;

    fn job(uid: &str, version: u64) -> (Key, Job) {
        let raw = json!({
            "metadata": { "name": "j", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
                "annotations": { "trainyard.dev/record": r#"{"v":1,"ports":{"base":9,"size":8}}"# } },
            "spec": { "a": [null] },
        });
        let raw = raw.to_string().replace("null", "1e999");
        Job::read(Catalog::default().kind("PyTorchJob").unwrap(), &raw).unwrap()
    }

    #[test]
    fn a_job_is_read_whatever_its_spec_is() {
        let (key, job) = job("u", 7);
        assert_eq!(key.to_string(), "PyTorchJob ns/j");
        assert!(job.claims_ports);
    }

    #[test]
    fn answers_lead_the_watch_and_old_events_change_nothing() {
        let mut jobs = Jobs::default();
        let (key, first) = job("u", 5);
        assert!(jobs.show(key.clone(), first).0);
        assert!(jobs.learn(key.clone(), job("u", 8).1).0);
        assert!(!jobs.show(key.clone(), job("u", 6).1).0);
        assert_eq!(&*jobs.get(&key).unwrap().version, "8");
        assert!(jobs.remove(&key, "u"));
        jobs.advance(Catalog::default().kind("PyTorchJob").unwrap(), 9);
        assert!(!jobs.learn(key.clone(), job("u", 8).1).0, "a late answer does not bring it back");
        assert_eq!(jobs.show(key.clone(), job("u", 10).1), (true, None));
        assert_eq!(
            jobs.show(key.clone(), job("w", 11).1),
            (true, Some("u".into())),
            "a new job of that name"
        );
        assert!(!jobs.remove(&key, "u"), "the removal of the old one does not touch the new one");
        assert_eq!(
            jobs.keep_only(Catalog::default().kind("TFJob").unwrap(), &BTreeSet::new(), 50).len(),
            0,
            "another kind"
        );
        assert_eq!(
            jobs.keep_only(Catalog::default().kind("PyTorchJob").unwrap(), &BTreeSet::new(), 50).len(),
            1
        );
        assert_eq!(jobs.len(), 0);
    }
}
