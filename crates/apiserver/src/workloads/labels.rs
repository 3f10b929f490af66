//! Labels as an index in both directions: who carries what somebody selects, and who selects what an object carries.
//!
//! A look costs what it finds. Whoever walked through all pods for each service would take hours where there are many.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::index::{Item, Kind};
use crate::store::{Key, Stored};

/// One label and its value in one namespace, as a number. Two may share a number, so what is found by it is checked
/// against the selector again.
pub(super) type Mark = u64;

/// Turns labels into marks. The numbers are those of this process only.
#[derive(Debug, Default)]
pub(super) struct Marker(RandomState);

impl Marker {
    /// What an object carries: its labels, and its namespace for selectors that no single label stands for.
    pub(super) fn carried(&self, stored: &Stored) -> Box<[Mark]> {
        self.marks(stored.key.namespace(), &stored.labels().unwrap_or_default())
    }

    /// What an object has to carry to be selected; nothing if this one selects none.
    pub(super) fn wanted(&self, kind: Kind, stored: &Stored) -> Option<Box<[Mark]>> {
        #[derive(Deserialize)]
        struct Object {
            spec: Option<Spec>,
        }
        #[derive(Deserialize)]
        struct Spec {
            selector: Option<Map<String, Value>>,
        }
        let object: Object = serde_json::from_slice(&stored.bytes).ok()?;
        let selector = object.spec?.selector.filter(|selector| !selector.is_empty())?;
        let none = Map::new();
        let labels = match kind {
            Kind::Service => &selector,
            Kind::Deployment | Kind::ReplicaSet | Kind::Job => {
                selector.get("matchLabels").and_then(Value::as_object).unwrap_or(&none)
            }
            Kind::Pod => return None,
        };
        Some(self.marks(stored.key.namespace(), labels))
    }

    fn marks(&self, namespace: &str, labels: &Map<String, Value>) -> Box<[Mark]> {
        let pairs = labels.iter().filter_map(|(label, value)| Some((label.as_str(), value.as_str()?)));
        let mut marks: Vec<Mark> = pairs
            .chain([("", "")])
            .map(|(label, value)| self.0.hash_one((namespace, label, value)))
            .collect();
        marks.sort_unstable();
        marks.into()
    }
}

/// Objects by the marks they carry.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    marks: HashMap<Arc<Key>, Box<[Mark]>>,
    by_mark: HashMap<Mark, BTreeSet<Arc<Key>>>,
}

impl Carriers {
    /// Takes an object in, and says what it carried before if that was something else.
    pub(super) fn put(&mut self, key: &Key, marks: Box<[Mark]>) -> Option<Box<[Mark]>> {
        if self.marks.get(key) == Some(&marks) {
            return None;
        }
        let before = self.remove(key);
        let key = Arc::new(key.clone());
        for mark in &marks {
            self.by_mark.entry(*mark).or_default().insert(Arc::clone(&key));
        }
        self.marks.insert(key, marks);
        before
    }

    /// Forgets an object, and says what it carried.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Box<[Mark]>> {
        let marks = self.marks.remove(key)?;
        for mark in &marks {
            if let Some(keys) = self.by_mark.get_mut(mark) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_mark.remove(mark);
                }
            }
        }
        Some(marks)
    }

    pub(super) fn marks(&self, key: &Key) -> &[Mark] {
        self.marks.get(key).map_or(&[], |marks| marks)
    }

    /// Those that may carry all of these marks: every object with the rarest of them.
    pub(super) fn carrying(&self, wanted: &[Mark]) -> impl Iterator<Item = &Key> {
        let count = |mark: &&Mark| self.by_mark.get(mark).map_or(0, BTreeSet::len);
        let rarest = wanted.iter().min_by_key(count);
        rarest.and_then(|mark| self.by_mark.get(mark)).into_iter().flatten().map(|key| &**key)
    }
}

/// Objects that select others, by the marks they want.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    wanted: HashMap<Item, (Mark, Box<[Mark]>)>,
    /// Each is filed under one mark: the one that fewest others are filed under.
    filed: HashMap<Mark, BTreeSet<Item>>,
}

impl Selectors {
    /// Takes in what an object selects now.
    pub(super) fn put(&mut self, item: &Item, wanted: Option<Box<[Mark]>>) {
        if self.wanted(item) == wanted.as_deref() {
            return;
        }
        self.remove(item);
        let Some(wanted) = wanted else { return };
        let count = |mark: &&Mark| self.filed.get(mark).map_or(0, BTreeSet::len);
        let Some(mark) = wanted.iter().min_by_key(count).copied() else { return };
        self.filed.entry(mark).or_default().insert(item.clone());
        self.wanted.insert(item.clone(), (mark, wanted));
    }

    pub(super) fn remove(&mut self, item: &Item) {
        let Some((mark, _)) = self.wanted.remove(item) else { return };
        if let Some(items) = self.filed.get_mut(&mark) {
            items.remove(item);
            if items.is_empty() {
                self.filed.remove(&mark);
            }
        }
    }

    pub(super) fn wanted(&self, item: &Item) -> Option<&[Mark]> {
        self.wanted.get(item).map(|(_, wanted)| &**wanted)
    }

    /// Those that select an object with these marks.
    pub(super) fn selecting<'a>(&'a self, carried: &'a [Mark]) -> impl Iterator<Item = &'a Item> {
        let is_met = |wanted: &[Mark]| wanted.iter().all(|mark| carried.binary_search(mark).is_ok());
        self.asked(carried).filter(move |item| self.wanted(item).is_some_and(is_met))
    }

    /// Those that are asked whether they select an object with these marks.
    fn asked<'a>(&'a self, carried: &'a [Mark]) -> impl Iterator<Item = &'a Item> {
        carried.iter().filter_map(|mark| self.filed.get(mark)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(table: &str, name: &str, object: &Value) -> Stored {
        Stored::rehearsed(&Key::new(&table.into(), "default", name), object).unwrap()
    }

    fn labels(job: usize, index: usize) -> Value {
        json!({"operator": "pytorchjob-controller", "job-name": format!("job-{job}"), "role": "worker",
            "index": index.to_string()})
    }

    /// Every pod and every service of this many jobs of four replicas: how many entries are looked at for all of them.
    fn looks(jobs: usize) -> (usize, usize) {
        let (marker, mut pods, mut services) = (Marker::default(), Carriers::default(), Selectors::default());
        let replicas = || (0..jobs).flat_map(|job| (0..4).map(move |index| (job, index)));
        let item = |job, index| Item {
            kind: Kind::Service,
            key: Key::new(&"/services".into(), "default", &format!("job-{job}-worker-{index}")),
        };
        for (job, index) in replicas() {
            let service = json!({"spec": {"selector": labels(job, index)}});
            let wanted = marker.wanted(Kind::Service, &stored("/services", "s", &service));
            services.put(&item(job, index), wanted);
        }
        let mut asked = 0;
        for (job, index) in replicas() {
            let pod = json!({"metadata": {"labels": labels(job, index)}});
            let pod = stored("/pods", &format!("job-{job}-worker-{index}"), &pod);
            let marks = marker.carried(&pod);
            asked += services.asked(&marks).count();
            assert_eq!(services.selecting(&marks).collect::<Vec<_>>(), [&item(job, index)]);
            pods.put(&pod.key, marks);
        }
        let members = replicas().map(|(job, index)| {
            let wanted = services.wanted(&item(job, index)).unwrap();
            pods.carrying(wanted).count()
        });
        (asked, members.sum())
    }

    #[test]
    fn a_pod_costs_the_same_among_few_and_among_many() {
        let (few, many) = (looks(100), looks(1600));
        assert!(many.0 <= few.0 * 20, "services asked: {} for 16 times {}", many.0, few.0);
        assert!(many.1 <= few.1 * 20, "pods looked at: {} for 16 times {}", many.1, few.1);
    }

    #[test]
    fn what_changes_is_found_under_its_new_labels_only() {
        let (marker, mut pods) = (Marker::default(), Carriers::default());
        let pod = |value: &str| stored("/pods", "a", &json!({"metadata": {"labels": {"app": value}}}));
        let marks = |value: &str| marker.carried(&pod(value));
        assert_eq!(pods.put(&pod("x").key, marks("x")), None);
        assert_eq!(pods.put(&pod("x").key, marks("x")), None, "the same again");
        assert_eq!(pods.put(&pod("y").key, marks("y")), Some(marks("x")));
        let wanted = |value: &str| {
            let service = json!({"spec": {"selector": {"app": value}}});
            marker.wanted(Kind::Service, &stored("/services", "s", &service)).unwrap()
        };
        assert_eq!(pods.carrying(&wanted("x")).count(), 0);
        assert_eq!(pods.carrying(&wanted("y")).count(), 1);
        assert_eq!(pods.remove(&pod("y").key), Some(marks("y")));
        assert!(pods.by_mark.is_empty());
    }

    #[test]
    fn selectors_without_a_label_are_asked_about_every_object_of_their_namespace() {
        let (marker, mut sets) = (Marker::default(), Selectors::default());
        let item = Item { kind: Kind::ReplicaSet, key: Key::new(&"apps/replicasets".into(), "default", "r") };
        let set = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}});
        sets.put(&item, marker.wanted(Kind::ReplicaSet, &stored("apps/replicasets", "r", &set)));
        let pod = marker.carried(&stored("/pods", "p", &json!({"metadata": {"labels": {"a": "b"}}})));
        assert_eq!(sets.selecting(&pod).collect::<Vec<_>>(), [&item]);
        let elsewhere = Key::new(&"/pods".into(), "other", "p");
        let pod = Stored::rehearsed(&elsewhere, &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        assert_eq!(sets.selecting(&marker.carried(&pod)).count(), 0);
        sets.put(&item, None);
        assert!(sets.filed.is_empty() && sets.wanted.is_empty());
    }
}
