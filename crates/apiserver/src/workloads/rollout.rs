//! What a deployment does next about its replica sets. Pure: from one look at them to one step.

use serde_json::Value;

use crate::object::{at, is_deleting, meta};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HASH_LABEL: &str = "pod-template-hash";

/// A replica set of a deployment.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Value,
    /// What is wanted of it.
    pub(super) replicas: i64,
    /// What it has.
    pub(super) actual: i64,
    pub(super) available: i64,
}

impl Set {
    pub(super) fn new(object: Value) -> Self {
        let number = |path: &str| at(&object, path).and_then(Value::as_i64).unwrap_or(0);
        Self {
            replicas: number("spec.replicas"),
            actual: number("status.replicas"),
            available: number("status.availableReplicas"),
            object,
        }
    }

    pub(super) fn name(&self) -> &str {
        meta(&self.object, "name")
    }

    pub(super) fn annotation(&self, name: &str) -> &str {
        let annotations = self.object.get("metadata").and_then(|m| m.get("annotations"));
        annotations.and_then(|a| a.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn revision(&self) -> i64 {
        self.annotation(REVISION).parse().unwrap_or(0)
    }

    fn age(&self) -> (String, String) {
        (meta(&self.object, "creationTimestamp").to_owned(), self.name().to_owned())
    }
}

/// What a deployment asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) replicas: i64,
    pub(super) surge: i64,
    pub(super) unavailable: i64,
    pub(super) rolling: bool,
}

impl Wanted {
    pub(super) fn of(deployment: &Value) -> Self {
        let replicas = at(deployment, "spec.replicas").and_then(Value::as_i64).unwrap_or(1);
        let rolling = at(deployment, "spec.strategy.type").and_then(Value::as_str) != Some("Recreate");
        let part = |name: &str, up: bool| {
            let path = format!("spec.strategy.rollingUpdate.{name}");
            at(deployment, &path).map_or(0, |value| share(value, replicas, up))
        };
        let (surge, mut unavailable) = (part("maxSurge", true), part("maxUnavailable", false));
        if surge == 0 && unavailable == 0 {
            // Otherwise nothing could ever move.
            unavailable = 1;
        }
        match rolling {
            true => Self { replicas, surge, unavailable: unavailable.min(replicas), rolling },
            false => Self { replicas, surge: 0, unavailable: 0, rolling },
        }
    }
}

/// A number, or a percentage of one.
fn share(value: &Value, of: i64, up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percent {
        Some(percent) if up => (of * percent + 99) / 100,
        Some(percent) => of * percent / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

/// Which set has the deployment's template: the oldest one that does.
pub(super) fn find_new(deployment: &Value, sets: &[Set]) -> Option<usize> {
    let wanted = without_hash(at(deployment, "spec.template"));
    let same = |set: &&(usize, &Set)| without_hash(at(&set.1.object, "spec.template")) == wanted;
    let mut sorted: Vec<(usize, &Set)> = sets.iter().enumerate().collect();
    sorted.sort_by_key(|(_, set)| set.age());
    sorted.iter().find(same).map(|(index, _)| *index)
}

fn without_hash(template: Option<&Value>) -> Value {
    let mut template = template.cloned().unwrap_or_default();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
        metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    }
    template
}

/// One step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make the new set with so many replicas.
    Create(i64),
    /// Give sets other sizes.
    Scale(Vec<(usize, i64)>),
    /// Nothing to move: remember old sets only as far as asked.
    Settled,
}

/// Decides a step. `old_pods` says whether pods of old sets are still there, ending ones included.
pub(super) fn step(deployment: &Value, sets: &[Set], new: Option<usize>, old_pods: bool) -> Step {
    let wanted = Wanted::of(deployment);
    let paused = at(deployment, "spec.paused") == Some(&Value::Bool(true));
    let resized = sets
        .iter()
        .filter(|set| set.replicas > 0)
        .filter_map(|set| set.annotation(DESIRED).parse::<i64>().ok())
        .any(|desired| desired != wanted.replicas);
    let shared_out = if paused || resized { scale(&wanted, sets, new) } else { Vec::new() };
    let changes = if paused || !shared_out.is_empty() {
        Some(shared_out)
    } else if wanted.rolling {
        roll(&wanted, sets, new)
    } else {
        recreate(&wanted, sets, new, old_pods)
    };
    let Some(mut changes) = changes else {
        return Step::Create(if wanted.rolling { first_size(&wanted, sets) } else { wanted.replicas });
    };
    let forced = |index: usize| resized && sets.get(index).is_some_and(|set| set.replicas > 0);
    changes
        .retain(|(index, size)| sets.get(*index).is_some_and(|set| set.replicas != *size) || forced(*index));
    if changes.is_empty() { Step::Settled } else { Step::Scale(changes) }
}

fn total(sets: &[Set]) -> i64 {
    sets.iter().map(|set| set.replicas).sum()
}

/// How many replicas a new set may start with.
fn first_size(wanted: &Wanted, sets: &[Set]) -> i64 {
    (wanted.replicas + wanted.surge - total(sets)).clamp(0, wanted.replicas)
}

fn old_of(sets: &[Set], new: Option<usize>) -> Vec<(usize, &Set)> {
    let mut old: Vec<(usize, &Set)> = sets.iter().enumerate().filter(|(i, _)| Some(*i) != new).collect();
    old.sort_by_key(|(_, set)| set.age());
    old
}

/// A rolling update: up as far as the surge allows, else down as far as availability allows. Nothing when the new
/// set is missing.
fn roll(wanted: &Wanted, sets: &[Set], new: Option<usize>) -> Option<Vec<(usize, i64)>> {
    let index = new?;
    let set = sets.get(index)?;
    if set.replicas > wanted.replicas {
        return Some(vec![(index, wanted.replicas)]);
    }
    let room = (wanted.replicas + wanted.surge - total(sets)).min(wanted.replicas - set.replicas);
    if room > 0 {
        return Some(vec![(index, set.replicas + room)]);
    }
    Some(shrink_old(wanted, sets, index, set))
}

fn shrink_old(wanted: &Wanted, sets: &[Set], index: usize, new: &Set) -> Vec<(usize, i64)> {
    let least = wanted.replicas - wanted.unavailable;
    let mut budget = total(sets) - least - (new.replicas - new.available);
    let mut sizes: Vec<(usize, i64, i64)> =
        old_of(sets, Some(index)).into_iter().map(|(i, set)| (i, set.replicas, set.available)).collect();
    // What is not available anyway goes first: it would hold everything up.
    for (_, size, available) in &mut sizes {
        let gone = budget.min(*size - *available).max(0);
        *size -= gone;
        budget -= gone;
    }
    if budget > 0 {
        let available: i64 = sets.iter().map(|set| set.available).sum();
        let mut spare = (available - least).min(budget).max(0);
        for (_, size, _) in &mut sizes {
            let gone = spare.min(*size);
            *size -= gone;
            spare -= gone;
        }
    }
    sizes.into_iter().map(|(i, size, _)| (i, size)).collect()
}

/// All old pods go before the first new one comes.
fn recreate(wanted: &Wanted, sets: &[Set], new: Option<usize>, old_pods: bool) -> Option<Vec<(usize, i64)>> {
    let old = old_of(sets, new);
    if old.iter().any(|(_, set)| set.replicas > 0) {
        return Some(old.into_iter().map(|(index, _)| (index, 0)).collect());
    }
    if old_pods || old.iter().any(|(_, set)| set.actual > 0) {
        return Some(Vec::new());
    }
    new.map(|index| vec![(index, wanted.replicas)])
}

/// A new size while paused or in the middle of a rollout: every set keeps its part of the whole.
fn scale(wanted: &Wanted, sets: &[Set], new: Option<usize>) -> Vec<(usize, i64)> {
    let active: Vec<(usize, &Set)> = sets.iter().enumerate().filter(|(_, set)| set.replicas > 0).collect();
    if let [(only, _)] = active.as_slice() {
        return vec![(*only, wanted.replicas)];
    }
    if active.is_empty() {
        let latest = new.or_else(|| old_of(sets, new).last().map(|(index, _)| *index));
        return latest.map(|index| (index, wanted.replicas)).into_iter().collect();
    }
    let saturated = new.and_then(|index| sets.get(index)).is_some_and(|set| {
        set.replicas == wanted.replicas
            && set.available == wanted.replicas
            && set.annotation(DESIRED).parse() == Ok(wanted.replicas)
    });
    if saturated {
        return old_of(sets, new).into_iter().map(|(index, _)| (index, 0)).collect();
    }
    if wanted.rolling { proportionally(wanted, active) } else { Vec::new() }
}

fn proportionally(wanted: &Wanted, mut active: Vec<(usize, &Set)>) -> Vec<(usize, i64)> {
    let allowed = if wanted.replicas > 0 { wanted.replicas + wanted.surge } else { 0 };
    let to_add = allowed - active.iter().map(|(_, set)| set.replicas).sum::<i64>();
    active.sort_by_key(|(_, set)| set.age());
    if to_add > 0 {
        active.reverse();
    }
    active.sort_by_key(|(_, set)| std::cmp::Reverse(set.replicas));
    let mut added = 0;
    let mut sizes: Vec<(usize, i64)> = Vec::new();
    for (index, set) in &active {
        let before = set.annotation(MAX).parse::<i64>().unwrap_or(0);
        let part = match (to_add, before) {
            (0, _) => 0,
            _ if wanted.replicas == 0 => -set.replicas,
            (_, 0) => 0,
            _ => rounded(set.replicas * (wanted.replicas + wanted.surge), before) - set.replicas,
        };
        let left = to_add - added;
        let part = if to_add > 0 { part.min(left) } else { part.max(left) };
        added += part;
        sizes.push((*index, set.replicas + part));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

fn rounded(amount: i64, parts: i64) -> i64 {
    (2 * amount + parts) / (2 * parts).max(1)
}

/// Old sets that nobody needs to go back to any more.
pub(super) fn forgotten<'a>(deployment: &Value, sets: &'a [Set], new: Option<usize>) -> Vec<&'a Set> {
    let limit = at(deployment, "spec.revisionHistoryLimit").and_then(Value::as_i64).unwrap_or(i64::MAX);
    let mut old: Vec<&Set> = old_of(sets, new).into_iter().map(|(_, set)| set).collect();
    old.retain(|set| !is_deleting(&set.object));
    old.sort_by_key(|set| set.revision());
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let seen = |set: &Set| {
        let number = |path: &str| at(&set.object, path).and_then(Value::as_i64).unwrap_or(0);
        number("metadata.generation") <= number("status.observedGeneration")
    };
    let idle = |set: &&Set| set.replicas == 0 && set.actual == 0 && seen(set);
    old.into_iter().take(surplus).filter(idle).collect()
}

/// The name of a template: a hash in letters that make no words.
pub(super) fn hash(template: &Value, collisions: i64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash: u32 = 0x811c_9dc5;
    let text = if collisions > 0 { format!("{template}{collisions}") } else { template.to_string() };
    for byte in text.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let symbol = |c: u8| ALPHABET.get(usize::from(c) % ALPHABET.len()).copied().unwrap_or(b'x');
    hash.to_string().bytes().map(|c| char::from(symbol(c))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(replicas: i64, strategy: Value) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": strategy, "revisionHistoryLimit": 1}})
    }

    fn rolling(replicas: i64) -> Value {
        let part = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
        deployment(replicas, json!({"type": "RollingUpdate", "rollingUpdate": part}))
    }

    fn set(name: &str, replicas: i64, available: i64, desired: i64) -> Set {
        Set::new(json!({
            "metadata": {"name": name, "creationTimestamp": name, "generation": 1, "annotations": {
                DESIRED: desired.to_string(), MAX: (desired + 1).to_string(), REVISION: "1"}},
            "spec": {"replicas": replicas},
            "status": {"replicas": available, "availableReplicas": available, "observedGeneration": 1},
        }))
    }

    #[test]
    fn a_rolling_update_goes_up_and_down_in_turns() {
        let d = rolling(4);
        assert_eq!(step(&d, &[], None, false), Step::Create(4));
        assert_eq!(step(&d, &[set("a", 4, 4, 4)], None, false), Step::Create(1));
        for (old, new, expected) in [
            ((4, 4), (1, 0), vec![(0, 3)]),
            ((3, 3), (1, 0), vec![(1, 2)]),
            ((3, 3), (2, 2), vec![(0, 1)]),
            ((3, 1), (2, 0), vec![]),
            ((0, 0), (4, 2), vec![]),
        ] {
            let sets = [set("a", old.0, old.1, 4), set("b", new.0, new.1, 4)];
            let step = step(&d, &sets, Some(1), false);
            let expected = if expected.is_empty() { Step::Settled } else { Step::Scale(expected) };
            assert_eq!(step, expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn recreate_waits_for_the_last_old_pod() {
        let d = deployment(2, json!({"type": "Recreate"}));
        let idle = |sets: &[Set], pods| step(&d, sets, None, pods);
        assert_eq!(idle(&[set("a", 2, 2, 2)], true), Step::Scale(vec![(0, 0)]));
        assert_eq!(idle(&[set("a", 0, 0, 2)], true), Step::Settled);
        assert_eq!(idle(&[set("a", 0, 0, 2)], false), Step::Create(2));
    }

    #[test]
    fn a_new_size_in_the_middle_is_shared_out() {
        let sets = [set("a", 3, 3, 4), set("b", 2, 2, 4)];
        let Step::Scale(sizes) = step(&rolling(8), &sets, Some(1), false) else { panic!("not scaled") };
        assert_eq!(sizes.iter().map(|(_, size)| size).sum::<i64>(), 10);
        assert_eq!(step(&rolling(8), &[set("a", 4, 4, 4)], Some(0), false), Step::Scale(vec![(0, 8)]));
        let Step::Scale(sizes) = step(&rolling(0), &sets, Some(1), false) else { panic!("not scaled") };
        assert!(sizes.iter().all(|(_, size)| *size == 0));
    }

    #[test]
    fn history_has_a_length() {
        let sets = [set("a", 0, 0, 4), set("b", 0, 0, 4), set("c", 4, 4, 4)];
        let names: Vec<&str> = forgotten(&rolling(4), &sets, Some(2)).iter().map(|s| s.name()).collect();
        assert_eq!(names, ["a"]);
    }
}
