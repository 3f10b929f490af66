//! Jobs that one operator began and the other went on with.
//!
//! Nobody may notice: after the change everything is as one of the two would have it. A pod that was made again would be
//! another one of its name, which is a field like every other.

use std::fmt::Write as _;

use crate::allowed::Allowed;
use crate::case::Case;
use crate::compare::Difference;
use crate::snapshot::Life;

/// Events are not read here. What ours remembers, on the job and on its pods, depends on how much it saw at once: an API
/// server shows a pod that is deleted as ending first, for a moment.
fn is_left_out(path: &str) -> bool {
    path.starts_with("events/") || path.contains("/metadata/annotations/trainyard.dev|")
}

/// What is as neither of the two would have it, and not left by a race that the peer is known for: its three lives differ
/// in those.
pub(crate) fn problems(
    cases: &[Case],
    allowed: &Allowed,
    theirs: &[Life],
    ours: &[Life],
    changed: &[Life],
) -> String {
    let mut text = String::new();
    let lives = cases.iter().zip(theirs).zip(ours).zip(changed);
    for (((case, theirs), ours), changed) in lives {
        let steps = changed.steps.iter().zip(&theirs.steps).zip(&ours.steps).enumerate();
        for (index, ((changed, theirs), ours)) in steps.skip(crate::CHANGE) {
            let step = case.step(index);
            let mut told = false;
            for path in changed.keys().chain(theirs.keys().filter(|path| !changed.contains_key(*path))) {
                let values = [changed, theirs, ours].map(|fields| fields.get(path));
                if is_left_out(path)
                    || values[0] == values[1]
                    || values[0] == values[2]
                    || allowed.is_chance(&left_by_the_peer(case, &step, path, values[0], values[2]))
                {
                    continue;
                }
                if !told {
                    let _ = writeln!(text, "{} ({}), step {step}", case.name, case.kind());
                    told = true;
                }
                let [changed, theirs, ours] = values.map(|value| value.map_or("nothing", String::as_str));
                let _ = writeln!(
                    text,
                    "    {path}\n        changed {changed}\n        peer    {theirs}\n        ours    {ours}"
                );
            }
        }
    }
    text
}

/// What ours found and would not have written itself.
fn left_by_the_peer(
    case: &Case,
    step: &str,
    path: &str,
    left: Option<&String>,
    ours: Option<&String>,
) -> Difference {
    Difference {
        case: case.name.clone(),
        kind: case.kind().to_owned(),
        step: step.to_owned(),
        path: path.to_owned(),
        peer: left.cloned(),
        ours: ours.cloned(),
    }
}

#[test]
fn only_a_race_of_the_peer_may_leave_what_neither_would_have() {
    let job = serde_json::json!({ "kind": "TFJob", "metadata": { "name": "tf-plugins" } });
    let steps = ["run all", "succeed worker-0"].into_iter();
    let case = Case::new("tf-plugins", crate::case::Setting::Plugins, job, Vec::new(), steps);
    let life = |path: Option<&str>| {
        let fields: crate::flat::Fields =
            path.map(|path| (path.to_owned(), "<time>".to_owned())).into_iter().collect();
        let mut life = Life::default();
        life.steps = vec![fields; 3];
        life
    };
    let allowed = Allowed::read(&crate::folder().join("differences.yaml"));
    let found = |path: &str| {
        problems(std::slice::from_ref(&case), &allowed, &[life(None)], &[life(None)], &[life(Some(path))])
    };
    assert_eq!(found("job/status/lastReconcileTime"), "");
    assert!(found("job/status/completionTime").contains("changed <time>"));
}
