//! Jobs that one operator began and the other went on with.
//!
//! Nobody may notice: after the change everything is as one of the two would have it. A pod that was made again would be
//! another one of its name, which is a field like every other.

use std::fmt::Write as _;

use crate::case::Case;
use crate::snapshot::Life;

/// Events are not read here. What ours remembers depends on how much it saw at once.
const LEFT_OUT: [&str; 2] = ["events/", "job/metadata/annotations/trainyard.dev|record"];

/// What is as neither of the two would have it.
pub(crate) fn problems(cases: &[Case], theirs: &[Life], ours: &[Life], changed: &[Life]) -> String {
    let mut text = String::new();
    let lives = cases.iter().zip(theirs).zip(ours).zip(changed);
    for (((case, theirs), ours), changed) in lives {
        let steps = changed.steps.iter().zip(&theirs.steps).zip(&ours.steps).enumerate();
        for (index, ((changed, theirs), ours)) in steps.skip(crate::CHANGE) {
            let mut told = false;
            for path in changed.keys().chain(theirs.keys().filter(|path| !changed.contains_key(*path))) {
                let values = [changed, theirs, ours].map(|fields| fields.get(path));
                if LEFT_OUT.iter().any(|start| path.starts_with(start))
                    || values[0] == values[1]
                    || values[0] == values[2]
                {
                    continue;
                }
                if !told {
                    let _ = writeln!(
                        text,
                        "{} ({}), step {index} ({})",
                        case.name,
                        case.kind(),
                        case.steps[index].line
                    );
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
