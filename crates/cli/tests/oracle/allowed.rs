//! The differences that are meant, by name, and the verdict on those that were found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use crate::compare::{Comparison, Difference};
use crate::flat::Pattern;

/// Lines of a report.
const SHOWN: usize = 400;

/// A difference that is meant, and where it shows.
struct Entry {
    name: String,
    places: Vec<Place>,
}

/// What a difference has to be like. What is not said may be anything.
struct Place {
    path: Vec<Pattern>,
    case: Vec<Pattern>,
    kind: Vec<Pattern>,
    step: Option<Regex>,
    peer: Option<Regex>,
    ours: Option<Regex>,
    /// It depends on a race within the peer.
    sometimes: bool,
}

pub(crate) struct Allowed(Vec<Entry>);

impl Allowed {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let entries: Vec<Value> = serde_saphyr::from_str(&text).unwrap();
        let shown_here = entries.iter().filter(|entry| entry.get("where").is_some());
        Self(shown_here.map(Entry::parse).collect())
    }

    pub(crate) fn judge<'a>(&'a self, comparison: &'a Comparison) -> Verdict<'a> {
        let mut verdict =
            Verdict { comparison, allowed: BTreeMap::new(), bugs: Vec::new(), dead: Vec::new() };
        let mut used: Vec<Vec<bool>> = self.0.iter().map(|entry| vec![false; entry.places.len()]).collect();
        for difference in &comparison.differences {
            let mut known = false;
            for (entry, used) in self.0.iter().zip(&mut used) {
                for (place, used) in entry.places.iter().zip(used) {
                    if place.matches(difference) {
                        *used = true;
                        if !known {
                            *verdict.allowed.entry(&entry.name).or_default() += 1;
                        }
                        known = true;
                    }
                }
            }
            if !known {
                verdict.bugs.push(difference);
            }
        }
        for (entry, used) in self.0.iter().zip(used) {
            let dead = entry.places.iter().zip(used).filter(|(place, used)| !used && !place.sometimes);
            verdict.dead.extend(dead.map(|(place, _)| format!("{}: {:?}", entry.name, place.path)));
        }
        verdict
    }

    /// Whether chance within the peer may have made this difference, in this step or an earlier one.
    pub(crate) fn is_chance(&self, difference: &Difference) -> bool {
        let places = self.0.iter().flat_map(|entry| &entry.places);
        places.filter(|place| place.sometimes).any(|place| place.matches_in_any_step(difference))
    }
}

impl Entry {
    fn parse(value: &Value) -> Self {
        let name = value["name"].as_str().expect("an entry has a name").to_owned();
        let places = value["where"].as_array().unwrap_or_else(|| panic!("{name}: where is a list"));
        Self { places: places.iter().map(Place::parse).collect(), name }
    }
}

impl Place {
    fn parse(value: &Value) -> Self {
        let known = ["path", "case", "kind", "step", "peer", "trainyard", "sometimes"];
        for field in value.as_object().expect("a place is a map").keys() {
            assert!(known.contains(&field.as_str()), "{field}: what is that?");
        }
        let patterns = |field: &str| match &value[field] {
            Value::Null => Vec::new(),
            Value::String(one) => vec![Pattern::new(one)],
            Value::Array(several) => several.iter().map(|one| Pattern::new(one.as_str().unwrap())).collect(),
            other => panic!("{field}: {other}"),
        };
        let regex =
            |field: &str| value[field].as_str().map(|text| Regex::new(&format!("^(?:{text})$")).unwrap());
        Self {
            path: patterns("path"),
            case: patterns("case"),
            kind: patterns("kind"),
            step: regex("step"),
            peer: regex("peer"),
            ours: regex("trainyard"),
            sometimes: value["sometimes"] == true,
        }
    }

    fn matches(&self, difference: &Difference) -> bool {
        self.step.as_ref().is_none_or(|regex| regex.is_match(&difference.step))
            && self.matches_in_any_step(difference)
    }

    fn matches_in_any_step(&self, difference: &Difference) -> bool {
        let one_of = |patterns: &[Pattern], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        let like = |regex: &Option<Regex>, text: &Option<String>| {
            regex.as_ref().is_none_or(|regex| regex.is_match(text.as_deref().unwrap_or("nothing")))
        };
        one_of(&self.path, &difference.path)
            && one_of(&self.case, &difference.case)
            && one_of(&self.kind, &difference.kind)
            && like(&self.peer, &difference.peer)
            && like(&self.ours, &difference.ours)
    }
}

pub(crate) struct Verdict<'a> {
    comparison: &'a Comparison,
    allowed: BTreeMap<&'a str, usize>,
    bugs: Vec<&'a Difference>,
    dead: Vec<String>,
}

impl Verdict<'_> {
    pub(crate) fn figures(&self) -> String {
        let Comparison { manifests, snapshots, fields, .. } = self.comparison;
        let total: usize = self.allowed.values().sum();
        let mut text = format!(
            "{manifests} manifests, {snapshots} snapshots, {fields} fields compared: {total} differ as they should, {} do not.",
            self.bugs.len()
        );
        for (name, count) in &self.allowed {
            let _ = write!(text, "\n  {count:>6} {name}");
        }
        text
    }

    /// What is wrong; a difference that lasts is told once. Entries that match nothing count if all cases ran.
    pub(crate) fn problems(&self, all: bool) -> String {
        let mut text = String::new();
        let mut last: Option<&Difference> = None;
        let mut told: Vec<(&str, &str, &Option<String>, &Option<String>)> = Vec::new();
        for bug in &self.bugs {
            let key = (bug.case.as_str(), bug.path.as_str(), &bug.peer, &bug.ours);
            if told.contains(&key) || told.len() >= SHOWN {
                continue;
            }
            told.push(key);
            if last.is_none_or(|last| (&last.case, &last.step) != (&bug.case, &bug.step)) {
                let _ = writeln!(text, "{} ({}), step {}", bug.case, bug.kind, bug.step);
            }
            last = Some(bug);
            let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
            let _ = writeln!(
                text,
                "    {}\n        peer      {}\n        trainyard {}",
                bug.path,
                show(&bug.peer),
                show(&bug.ours)
            );
        }
        for dead in self.dead.iter().filter(|_| all) {
            let _ = writeln!(text, "an entry of differences.yaml that matched nothing: {dead}");
        }
        text
    }
}
