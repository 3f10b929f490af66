//! Two lives of each job, field by field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::case::Case;
use crate::flat::Fields;
use crate::snapshot::Life;

/// One field that is not the same; nothing is a field that is not there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) case: String,
    pub(crate) kind: String,
    pub(crate) step: String,
    pub(crate) path: String,
    pub(crate) peer: Option<String>,
    pub(crate) ours: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) manifests: usize,
    pub(crate) snapshots: usize,
    pub(crate) fields: usize,
    pub(crate) differences: Vec<Difference>,
}

/// So many events about one object are written by client-go's recorder; from then on it drops most.
const EVENTS_OF_THE_PEER: u64 = 25;

impl Comparison {
    pub(crate) fn of(cases: &[Case], theirs: &[Life], ours: &[Life]) -> Self {
        let mut comparison = Self { manifests: cases.len(), ..Self::default() };
        for ((case, theirs), ours) in cases.iter().zip(theirs).zip(ours) {
            for (index, (theirs, ours)) in theirs.steps.iter().zip(&ours.steps).enumerate() {
                comparison.snapshots += 1;
                comparison.compare(case, &case.step(index), theirs, ours);
            }
            if theirs.events >= EVENTS_OF_THE_PEER {
                let is_missing = |one: &Difference| one.peer.is_none() && one.path.starts_with("events/");
                comparison.differences.retain(|one| one.case != case.name || !is_missing(one));
            }
        }
        comparison
    }

    fn compare(&mut self, case: &Case, step: &str, theirs: &Fields, ours: &Fields) {
        let mut paths: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
        paths.sort_unstable();
        paths.dedup();
        self.fields += paths.len();
        let mut differences: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
        for path in paths.into_iter().filter(|path| theirs.get(*path) != ours.get(*path)) {
            let (whole, pair) = match (whole(path, theirs), whole(path, ours)) {
                (Some(whole), None) => (whole, (None, Some(all(whole, ours)))),
                (None, Some(whole)) => (whole, (Some(all(whole, theirs)), None)),
                _ => (path.as_str(), (theirs.get(path).cloned(), ours.get(path).cloned())),
            };
            differences.insert(whole.to_owned(), pair);
        }
        self.differences.extend(differences.into_iter().map(|(path, (peer, ours))| Difference {
            case: case.name.clone(),
            kind: case.kind().to_owned(),
            step: step.to_owned(),
            path,
            peer,
            ours,
        }));
    }
}

/// What is told as one thing when it is missing altogether: a child, a condition, a container, a variable.
static WHOLES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        r"^(?:[a-z]+s)/[^/]+",
        r"^job/status/conditions/[A-Z][^/]+",
        r"^.*?/(?:initContainers|containers|volumes|volumeMounts)/[^/]+",
        r"^.*/env/[^/]+",
    ]
    .map(|pattern| Regex::new(pattern).unwrap())
});

/// The largest thing around a field of which this side has nothing.
fn whole<'a>(path: &'a str, fields: &Fields) -> Option<&'a str> {
    let around = WHOLES.iter().filter_map(|pattern| pattern.find(path)).map(|found| found.as_str());
    let mut around: Vec<&str> = around.filter(|whole| !whole.starts_with("events/")).collect();
    around.sort_by_key(|whole| whole.len());
    around.retain(|whole| !whole.ends_with("/order") && !whole.ends_with("/length"));
    around.into_iter().find(|whole| !fields.keys().any(|path| is_within(path, whole)))
}

fn is_within(path: &str, whole: &str) -> bool {
    path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What one side has of a thing, in one line.
fn all(whole: &str, fields: &Fields) -> String {
    let within = fields.iter().filter(|(path, _)| is_within(path, whole));
    let told = within.map(|(path, value)| format!("{}={value}", path[whole.len()..].trim_start_matches('/')));
    told.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_missing_altogether_is_one_difference() {
    let fields = |all: &[&str]| -> Fields { all.iter().map(|path| ((*path).into(), "x".into())).collect() };
    let theirs = fields(&["pods/a/spec/b", "pods/a/spec/c", "pods/d/spec/env/E/name"]);
    let ours = fields(&["pods/d/spec/env/F/name"]);
    let job = serde_json::json!({ "kind": "TFJob", "metadata": { "name": "j" } });
    let case = Case::new("j", crate::case::Setting::Plain, job, Vec::new(), std::iter::empty());
    let mut comparison = Comparison::default();
    comparison.compare(&case, "0", &theirs, &ours);
    let found: Vec<_> = comparison.differences.iter().map(|one| (one.path.as_str(), &one.peer)).collect();
    assert_eq!(
        found,
        [
            ("pods/a", &Some("spec/b=x, spec/c=x".to_owned())),
            ("pods/d/spec/env/E", &Some("name=x".to_owned())),
            ("pods/d/spec/env/F", &None),
        ]
    );
}
