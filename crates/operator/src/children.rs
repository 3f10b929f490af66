//! Pods and services by the job that controls them.
//!
//! Filled by a watch, and by the answers to our own writes: a plan that is made before the watch has caught up must
//! not ask for what it has just been given. Whether an answer is news is decided by comparing its resourceVersion
//! with how far the watch has come: what the watch has passed it has told, and what it told to be gone must not
//! come back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trainyard_core::{ExtraView, Phase, PodView, ServiceView};

use crate::queue::Key;
use crate::wire::Owner;

/// A thing that a job controls.
pub(crate) trait View: Clone {
    fn name(&self) -> &str;
    fn uid(&self) -> &str;
    fn has_failed(&self) -> bool {
        false
    }
    /// Notes when it was seen, where decisions depend on that.
    fn seen_at(&mut self, _now: Timestamp) {}
    /// Keeps what an earlier view of the same object noted.
    fn keep(&mut self, _before: &Self) {}
}

impl View for PodView {
    fn name(&self) -> &str {
        &self.name
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn has_failed(&self) -> bool {
        self.phase == Phase::Failed
    }
    fn seen_at(&mut self, now: Timestamp) {
        self.seen_over = self.phase.is_over().then_some(now);
    }
    fn keep(&mut self, before: &Self) {
        self.seen_over = before.seen_over.filter(|_| self.phase.is_over()).or(self.seen_over);
    }
}

impl View for ServiceView {
    fn name(&self) -> &str {
        &self.name
    }
    fn uid(&self) -> &str {
        &self.uid
    }
}

impl View for ExtraView {
    fn name(&self) -> &str {
        &self.name
    }
    fn uid(&self) -> &str {
        &self.uid
    }
}

/// All children of one resource.
#[derive(Debug)]
pub(crate) struct Children<V> {
    families: BTreeMap<Box<str>, Family<V>>,
    owner_of: BTreeMap<Box<str>, Box<str>>,
    /// The identities of owners by key: usually one, more while the children of a deleted job end.
    owners: BTreeMap<Key, BTreeSet<Box<str>>>,
    /// How far the watch has come.
    watched: u64,
    ends: Ends,
}

/// How many children came to an end that were seen alive before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) failed: usize,
    pub(crate) gone: usize,
}

#[derive(Debug)]
struct Family<V> {
    key: Key,
    members: BTreeMap<Box<str>, Member<V>>,
}

#[derive(Debug)]
struct Member<V> {
    view: V,
    version: u64,
}

impl<V> Default for Children<V> {
    fn default() -> Self {
        Self {
            families: BTreeMap::new(),
            owner_of: BTreeMap::new(),
            owners: BTreeMap::new(),
            watched: 0,
            ends: Ends::default(),
        }
    }
}

impl<V: View> Children<V> {
    /// What was counted so far.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// The children of a job, by name.
    pub(crate) fn of(&self, owner: &str) -> Vec<V> {
        let family = self.families.get(owner);
        family
            .into_iter()
            .flat_map(|family| family.members.values())
            .map(|member| member.view.clone())
            .collect()
    }

    /// The children of jobs of that name that are not this one, by the identity of their job.
    pub(crate) fn strangers(&self, key: &Key, owner: Option<&str>) -> Vec<(Box<str>, Vec<V>)> {
        let others = self.owners.get(key).into_iter().flatten().filter(|uid| Some(&***uid) != owner);
        others.map(|uid| (uid.clone(), self.of(uid))).collect()
    }

    /// True when the job has this very child.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.owner_of.contains_key(uid)
    }

    /// The watch shows an object. Returns the jobs that are concerned: its owner, and its owner before; none if it
    /// shows what was known.
    pub(crate) fn show(&mut self, owner: Option<Owner>, view: V, version: u64) -> Vec<Key> {
        self.advance(version);
        let mut concerned = Vec::new();
        let before = self.owner_of.get(view.uid()).cloned();
        if let Some(before) = before
            && owner.as_ref().is_none_or(|owner| owner.uid != before)
        {
            concerned.extend(self.remove(view.uid()));
        }
        if let Some(owner) = owner
            && is_news(self.member(&owner.uid, view.name()), version)
        {
            concerned.push(owner.key.clone());
            self.put(owner, view, version);
        }
        concerned
    }

    /// An answer shows an object. Returns whether it is news. Objects that are not selected by the watch
    /// (`watched` false) are always news: no watch will ever tell.
    pub(crate) fn learn(&mut self, owner: Owner, view: V, version: u64, watched: bool) -> bool {
        let news = !watched || version > self.watched;
        let news = news && is_news(self.member(&owner.uid, view.name()), version);
        if news {
            self.put(owner, view, version);
        }
        news
    }

    /// An object is gone. Returns the job that is concerned, if the object was known.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Key> {
        let owner = self.owner_of.remove(uid)?;
        self.ends.gone += 1;
        let family = self.families.get_mut(&owner)?;
        family.members.retain(|_, member| member.view.uid() != uid);
        let key = family.key.clone();
        if family.members.is_empty() {
            self.families.remove(&owner);
            if let Some(owners) = self.owners.get_mut(&key) {
                owners.remove(&owner);
                if owners.is_empty() {
                    self.owners.remove(&key);
                }
            }
        }
        Some(key)
    }

    /// A complete list made at `version` is about to be shown. A server that was restored from a backup counts from
    /// an earlier number again: then what is known proves nothing against what it shows.
    pub(crate) fn begin_list(&mut self, version: u64) {
        if version < self.watched {
            self.watched = version;
            let members = self.families.values_mut().flat_map(|family| family.members.values_mut());
            members.for_each(|member| member.version = 0);
        }
    }

    /// A complete list was made at `version`: what is not in it is gone, unless it is younger than the list.
    pub(crate) fn keep_only(&mut self, uids: &BTreeSet<Box<str>>, version: u64) -> Vec<Key> {
        let members = self.families.values().flat_map(|family| family.members.values());
        let gone = members.filter(|m| !uids.contains(m.view.uid()) && (m.version <= version || version == 0));
        let gone: Vec<Box<str>> = gone.map(|member| member.view.uid().into()).collect();
        self.advance(version);
        gone.iter().filter_map(|uid| self.remove(uid)).collect()
    }

    /// The watch has come this far.
    pub(crate) fn advance(&mut self, version: u64) {
        self.watched = self.watched.max(version);
    }

    fn member(&self, owner: &str, name: &str) -> Option<&Member<V>> {
        self.families.get(owner)?.members.get(name)
    }

    fn put(&mut self, owner: Owner, mut view: V, version: u64) {
        let uid: Box<str> = view.uid().into();
        if !self.families.contains_key(&owner.uid) {
            self.owners.entry(owner.key.clone()).or_default().insert(owner.uid.clone());
        }
        let family = self
            .families
            .entry(owner.uid.clone())
            .or_insert_with(|| Family { key: owner.key, members: BTreeMap::new() });
        if let Some(before) = family.members.get(view.name()).filter(|before| before.view.uid() == &*uid) {
            view.keep(&before.view);
        }
        let failed = view.has_failed();
        let before = family.members.insert(view.name().into(), Member { view, version });
        if let Some(before) = before {
            if before.view.uid() == &*uid {
                self.ends.failed += usize::from(failed && !before.view.has_failed());
            } else {
                self.owner_of.remove(before.view.uid());
                self.ends.gone += 1;
            }
        }
        self.owner_of.insert(uid, owner.uid);
    }
}

/// True when nothing as young is known. Version 0 is a version that is no number: then the last word counts.
fn is_news<V>(known: Option<&Member<V>>, version: u64) -> bool {
    version == 0 || known.is_none_or(|member| member.version < version)
}

#[cfg(test)]
mod tests {
    use trainyard_core::Catalog;

    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner { uid: uid.into(), key: Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", uid) }
    }

    fn service(name: &str, uid: &str) -> ServiceView {
        ServiceView { name: name.into(), uid: uid.into(), deleting: false }
    }

    fn names(children: &Children<ServiceView>, owner: &str) -> Vec<String> {
        children.of(owner).iter().map(|s| format!("{}={}", s.name, s.uid)).collect()
    }

    #[test]
    fn an_answer_is_news_only_beyond_what_the_watch_has_told() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 10);
        assert!(children.learn(owner("j"), service("b", "2"), 11, true));
        assert!(
            !children.learn(owner("j"), service("c", "3"), 9, true),
            "the watch passed 9: it told it to be gone"
        );
        assert!(children.learn(owner("j"), service("d", "4"), 3, false), "no watch tells of this one");
        assert_eq!(names(&children, "j"), ["a=1", "b=2", "d=4"]);
    }

    #[test]
    fn an_old_event_does_not_undo_an_answer() {
        let mut children = Children::default();
        let deleting = ServiceView { deleting: true, ..service("a", "1") };
        children.show(Some(owner("j")), service("a", "1"), 10);
        assert!(children.learn(owner("j"), deleting, 12, true));
        assert!(children.show(Some(owner("j")), service("a", "1"), 11).is_empty());
        assert!(children.of("j")[0].deleting);
        assert!(
            children.show(Some(owner("j")), service("a", "1"), 12).is_empty(),
            "the watch repeats the answer"
        );
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_is_younger() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 10);
        children.show(Some(owner("k")), service("b", "2"), 11);
        children.learn(owner("j"), service("c", "3"), 30, true);
        let concerned = children.keep_only(&BTreeSet::from(["1".into()]), 20);
        assert_eq!(concerned, [owner("k").key]);
        assert_eq!(names(&children, "j"), ["a=1", "c=3"]);
        assert!(children.of("k").is_empty());
    }

    #[test]
    fn a_restored_server_is_believed() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 100);
        children.show(Some(owner("j")), service("b", "2"), 110);
        children.begin_list(50);
        children.show(Some(owner("j")), ServiceView { deleting: true, ..service("a", "1") }, 40);
        children.keep_only(&BTreeSet::from(["1".into()]), 50);
        assert_eq!(names(&children, "j"), ["a=1"]);
        assert!(children.of("j")[0].deleting);
    }

    #[test]
    fn a_changed_owner_concerns_both() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 10);
        let concerned = children.show(Some(owner("k")), service("a", "1"), 11);
        assert_eq!(concerned, [owner("j").key, owner("k").key]);
        assert!(children.of("j").is_empty());
        assert_eq!(children.show(None, service("a", "1"), 12), [owner("k").key], "orphaned");
    }

    #[test]
    fn the_first_look_at_the_end_of_a_pod_is_remembered() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pod = |uid: &str, phase, second| {
            let mut pod = PodView { name: "a".into(), uid: uid.into(), phase, ..PodView::default() };
            pod.seen_at(at(second));
            pod
        };
        let mut children = Children::default();
        children.show(Some(owner("j")), pod("1", Phase::Running, 1), 10);
        assert_eq!(children.of("j")[0].seen_over, None);
        children.show(Some(owner("j")), pod("1", Phase::Failed, 5), 11);
        children.show(Some(owner("j")), pod("1", Phase::Failed, 9), 12);
        assert_eq!(children.of("j")[0].seen_over, Some(at(5)));
        children.show(Some(owner("j")), pod("2", Phase::Failed, 20), 13);
        assert_eq!(children.of("j")[0].seen_over, Some(at(20)), "another pod of the same name");
    }

    #[test]
    fn ends_are_counted_once() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 10);
        children.show(Some(owner("j")), service("a", "2"), 11);
        assert_eq!(children.ends().gone, 1, "nobody told that the first one went");
        children.remove("2");
        children.remove("2");
        assert_eq!(children.ends(), Ends { failed: 0, gone: 2 });
    }

    #[test]
    fn children_of_an_earlier_job_are_strangers() {
        let named = |uid: &str| Owner { key: owner("j").key, ..owner(uid) };
        let mut children = Children::default();
        children.show(Some(named("old")), service("a", "1"), 10);
        children.show(Some(named("new")), service("b", "2"), 11);
        let strangers = |children: &Children<ServiceView>, uid| {
            let found = children.strangers(&owner("j").key, uid);
            found.into_iter().map(|(uid, _)| uid.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(strangers(&children, Some("new")), ["old"]);
        assert_eq!(strangers(&children, None), ["new", "old"]);
        children.remove("1");
        assert!(strangers(&children, Some("new")).is_empty());
    }

    #[test]
    fn a_successor_of_the_same_name_replaces_and_the_old_removal_is_no_removal() {
        let mut children = Children::default();
        children.show(Some(owner("j")), service("a", "1"), 10);
        children.show(Some(owner("j")), service("a", "2"), 12);
        assert!(children.remove("1").is_none());
        assert_eq!(names(&children, "j"), ["a=2"]);
    }
}
