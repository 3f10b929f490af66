//! Every state that a small job can come to, visited once: all sequences of pod states, not a sample of them.
//!
//! The other half of [`crate::properties`]: there the worlds are large and chosen at random, views are old and plans are
//! cut off; here they are small, and none is left out. Numbers that only grow (attempts, replacements) are counted from
//! where they are, and time has two values, before and after everything that is waited for: so the states are finitely
//! many.

mod pod;
mod state;
mod table;

use std::collections::{BTreeSet, HashSet, VecDeque};

use trainyard_core::*;

use state::{Detail, Job, State};

/// Replicas a job has at most.
const REPLICAS: u32 = 3;

/// All ways to give a kind up to [`REPLICAS`] replicas, at most one of them a leader.
fn shapes(kind: &Kind) -> Vec<Vec<(&'static str, u32)>> {
    let facts = Catalog::default().framework(kind.framework).unwrap().facts();
    let mut shapes = vec![Vec::new()];
    let servants =
        facts.roles.iter().filter(|role| !facts.leaders.contains(role) && **role != facts.followers);
    let servant = servants.clone().next();
    for role in facts.roles {
        // One leader is like another, and so is one of those that neither lead nor follow.
        let most = match facts.leaders.iter().position(|leader| leader == role) {
            Some(first) => u32::from(first == 0),
            None if servants.clone().any(|other| other == role) => u32::from(servant == Some(role)),
            None => REPLICAS,
        };
        let more: Vec<_> = shapes
            .iter()
            .flat_map(|shape: &Vec<_>| {
                let used: u32 = shape.iter().map(|(_, n)| n).sum();
                (1..=most.min(REPLICAS - used)).map(|n| {
                    let mut shape = shape.clone();
                    shape.push((*role, n));
                    shape
                })
            })
            .collect();
        shapes.extend(more);
    }
    shapes
}

/// What a walk found: transitions of the condition list, and what must never happen.
#[derive(Default)]
struct Found {
    states: usize,
    transitions: BTreeSet<(String, String)>,
    wrong: Vec<String>,
}

fn walk(job: &mut Job) -> Found {
    let mut found = Found::default();
    let start = State::start();
    let mut seen = HashSet::from([start]);
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        found.states += 1;
        let mut next = state.by_the_world(job);
        // What nobody waits for is the same later.
        for late in [false, true] {
            let planned = state.by_the_operator(job, late);
            let (from, to) = (job.shape(&state), job.shape(&planned.state));
            if from != to {
                found.transitions.insert((from, to));
            }
            found.wrong.extend(planned.wrong);
            next.push(planned.state);
            if !planned.waits {
                break;
            }
        }
        for state in next {
            if seen.insert(state) {
                queue.push_back(state);
            }
        }
    }
    found
}

/// What is looked at in jobs of so many replicas.
fn details(replicas: u32) -> Vec<Detail> {
    let plain = Detail { limit: None, trouble: false, suspends: false, edits: false };
    match replicas {
        1 => vec![
            Detail { trouble: true, suspends: true, edits: true, ..plain },
            Detail { limit: Some(1), trouble: true, suspends: true, ..plain },
        ],
        2 => vec![
            Detail { suspends: true, ..plain },
            Detail { trouble: true, ..plain },
            Detail { edits: true, ..plain },
            Detail { limit: Some(1), ..plain },
        ],
        _ => vec![plain],
    }
}

/// Walks through all jobs of a kind; what is wrong is told.
fn walk_kind(kind: &'static Kind) -> Found {
    let mut all = Found::default();
    for shape in shapes(kind) {
        let replicas = shape.iter().map(|(_, n)| n).sum();
        for restart in ["Always", "OnFailure", "Never", "ExitCode"] {
            for detail in details(replicas) {
                let Some(mut job) = Job::new(kind, &shape, restart, detail) else { continue };
                let found = walk(&mut job);
                let named = |wrong: &String| format!("{} {shape:?} {restart} {detail:?}: {wrong}", kind.name);
                // One of a sort is enough to find it.
                all.wrong.extend(found.wrong.first().map(named));
                all.states += found.states;
                all.transitions.extend(found.transitions);
            }
        }
    }
    all
}

#[test]
fn walk_every_state_of_a_small_job_is_in_the_table() {
    let table = table::transitions();
    let walks: Vec<_> = std::thread::scope(|scope| {
        let walks: Vec<_> =
            kinds::ALL.iter().map(|kind| (kind.name, scope.spawn(|| walk_kind(kind)))).collect();
        walks.into_iter().map(|(kind, walk)| (kind, walk.join().unwrap())).collect()
    });
    for (kind, found) in walks {
        println!("{kind}: {} states", found.states);
        assert!(found.states > 10_000, "{kind}: {} states are not all", found.states);
        assert_eq!(found.wrong, Vec::<String>::new());
        let untabled: Vec<_> = found.transitions.difference(&table).collect();
        assert!(untabled.is_empty(), "{kind} goes where the table does not: {untabled:#?}");
        let never: Vec<_> = table.difference(&found.transitions).collect();
        assert!(never.is_empty(), "{kind} never does what the table says: {never:#?}");
    }
}

#[test]
fn walk_the_page_of_states_is_the_table() {
    let page = table::page();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        page,
        "UPDATE_GOLDEN=1 writes docs/states.md"
    );
}
