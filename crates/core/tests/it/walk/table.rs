//! The table of states: how the conditions of a job change, and when. The tests hold the engine to it, and `docs/states.md`
//! is made from it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// From one list of conditions to another, and when. A condition is True unless it says otherwise.
type Row = (&'static str, &'static str, &'static str);

/// What stands for several things in a row. In both lists it stands for the same.
const ANY: [(char, &[&str]); 2] =
    [('~', &["", "Suspended=False"]), ('*', &["", "Running=False", "Restarting=False"])];

const ROWS: &[Row] = &[
    ("", "Created", "the operator has seen the job"),
    ("", "Created Suspended", "likewise, and `suspend` is true"),
    ("", "Failed", "likewise, and its spec is invalid"),
    ("Created ~", "Created ~ Running", "the deciding replica runs"),
    ("Created ~", "Created ~ Restarting", "a replica failed or was taken away before that, and is replaced"),
    (
        "Created ~",
        "Created ~ Running=False Succeeded",
        "the job ran so briefly that nobody saw it, and succeeded",
    ),
    ("Created ~", "Created ~ Running=False Failed", "likewise, and failed"),
    ("Created ~", "Created ~ Failed", "its deadline passed before anything ran, or its spec became invalid"),
    ("Created ~", "Created Suspended", "`suspend` became true"),
    ("Created ~ Running", "Created ~ Restarting", "a replica failed and is replaced, or none runs any more"),
    ("Created ~ Running", "Created ~ Running=False Succeeded", "what decides has succeeded"),
    (
        "Created ~ Running",
        "Created ~ Running=False Failed",
        "a failure that no restart may follow, a limit or the deadline; or an invalid spec, and no pod lives",
    ),
    ("Created ~ Running", "Created Running=False Suspended", "`suspend` became true"),
    (
        "Created ~ Running",
        "Created ~ Running=False",
        "none of the pods that live runs: the spec is invalid, or some replicas are done before the others have begun",
    ),
    ("Created ~ Running=False", "Created ~ Running", "a pod runs, and the spec is valid"),
    ("Created ~ Running=False", "Created ~ Restarting", "a replica failed and is replaced"),
    ("Created ~ Running=False", "Created ~ Running=False Succeeded", "what decides has succeeded"),
    ("Created ~ Running=False", "Created ~ Running=False Failed", "as from Running"),
    ("Created ~ Running=False", "Created Running=False Suspended", "`suspend` became true"),
    ("Created ~ Restarting", "Created ~ Running", "the deciding replica runs, and no replica is down"),
    ("Created ~ Restarting", "Created ~ Running=False Succeeded", "what decides has succeeded"),
    ("Created ~ Restarting", "Created ~ Restarting=False Failed", "as from Running"),
    ("Created ~ Restarting", "Created Restarting=False Suspended", "`suspend` became true"),
    ("Created * Suspended", "Created * Suspended=False", "`suspend` became false"),
    ("Created * Suspended", "Created * Suspended Failed", "its spec became invalid, and no pod lives"),
    ("Created * Suspended=False", "Created Suspended=False Running", "the deciding replica runs"),
    (
        "Created * Suspended=False",
        "Created Suspended=False Restarting",
        "a replica failed or was taken away before that",
    ),
    (
        "Created * Suspended=False",
        "Created Suspended=False Running=False Succeeded",
        "it ran so briefly that nobody saw it",
    ),
    ("Created * Suspended=False", "Created * Suspended=False Failed", "as from Created"),
    ("Created * Suspended=False", "Created * Suspended", "`suspend` became true again"),
];

/// Every transition there is.
pub(super) fn transitions() -> BTreeSet<(String, String)> {
    let mut rows: BTreeSet<(String, String)> =
        ROWS.iter().map(|(from, to, _)| ((*from).to_owned(), (*to).to_owned())).collect();
    for (mark, values) in ANY {
        let put = |list: &str, value: &str| {
            let list = list.replace(mark, value);
            list.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        rows = rows
            .iter()
            .flat_map(|(from, to)| values.iter().map(|value| (put(from, value), put(to, value))))
            .collect();
    }
    rows
}

/// The page.
pub(super) fn page() -> String {
    let list = |text: &str| {
        let words = text.split_whitespace().map(|word| match word {
            "~" => "_~_".to_owned(),
            "*" => "_*_".to_owned().replace('*', "\\*"),
            word => format!("`{word}`"),
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() { "(none)".to_owned() } else { words.join(" ") }
    };
    let mut page = HEAD.to_owned();
    for (from, to, when) in ROWS {
        writeln!(page, "| {} | {} | {when} |", list(from), list(to)).unwrap();
    }
    page
}

const HEAD: &str = "\
<!-- Made from crates/core/tests/it/walk/table.rs: UPDATE_GOLDEN=1 cargo test -p trainyard-core walk -->
# The states of a job

`status.conditions` is a list, ordered by the latest change: its last entry is the state of the job, and what `kubectl get`
shows. This page has every change of that list, for every kind. There are no others: a test visits all states that jobs of up to
three replicas can come to, with every restart policy, and holds the operator to this table.

| state | means |
|---|---|
| Created | seen; no replica that decides has run yet |
| Running | the deciding replica runs, or ran and another replica still does; at least one pod runs |
| Restarting | a replica is down and is being replaced, or none runs where one did |
| Suspended | `runPolicy.suspend` is true: no pods |
| Succeeded, Failed | the end: nothing about the job changes any more, and no pod is ever started for it |

Which replica decides is on the page of each kind ([kinds](kinds/)); what is restarted, and how often, in [restarts](restarts.md).
Running and Restarting are never both true, and after the end neither is.

Beside these there may be `InvalidSpec`, always last: the spec was changed so that it cannot be read or breaks a rule, while pods
live. Nothing is touched until it is valid again or no pod lives; then it is gone.

`Waiting`, always right after Created, says that replicas cannot start and why: no node, no image, a quota, a name that is taken, a
gang that is not let in. It comes within seconds, goes when they start, and is no state of its own.

A condition is True unless it says otherwise. _~_ stands for `Suspended=False` where the job was resumed before, and for nothing
otherwise; _\\*_ for nothing, `Running=False` or `Restarting=False`: what was true when the job was suspended.

| conditions | become | when |
|---|---|---|
";
