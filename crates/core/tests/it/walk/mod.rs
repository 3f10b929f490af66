//! Every state that a small job can come to, visited once: all sequences of pod states, not a sample of them.
//!
//! The other half of [`crate::properties`]: there the worlds are large and chosen at random, views are old and plans are
//! cut off; here they are small, and none is left out. Numbers that only grow (attempts, replacements) are counted from
//! where they are, and time has two values, before and after everything that is waited for: so the states are finitely
//! many.

mod job;
mod moves;
mod operator;
mod pod;
mod rules;
mod search;
mod state;
mod table;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Mutex;

use trainyard_core::*;

use job::{Detail, Job};
use moves::Time;
use state::State;

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
    let start = State::start(job);
    let mut seen = HashSet::from([start]);
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        found.states += 1;
        let mut next: Vec<State> = state.by_the_world(job).iter().map(|step| step.state).collect();
        // What nobody waits for is the same later.
        for time in [Time::Now, Time::Late] {
            let looked = state.look(job, time);
            let after = looked.whole();
            let (from, to) = (job.shape(state.conditions), job.shape(after.conditions));
            if from != to {
                found.transitions.insert((from, to));
            }
            next.push(after);
            found.wrong.extend(looked.wrong);
            if !looked.waits {
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
    let plain = Detail::default();
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

/// A job that is searched, and with how many faults.
struct Searched {
    name: String,
    job: Job,
    faults: u8,
}

/// The jobs of a kind that are searched: of two replicas with so many faults, of three with one less; every policy, every
/// clean-up, both scopes.
fn searched(kind: &'static Kind, faults: u8) -> Vec<Searched> {
    let mut jobs = Vec::new();
    let cleans = [None, Some("Running"), Some("All")];
    for shape in shapes(kind) {
        let replicas: u32 = shape.iter().map(|(_, n)| n).sum();
        let Some(fewer) = replicas.checked_sub(2) else { continue };
        let faults = faults.saturating_sub(u8::try_from(fewer).unwrap());
        for (i, restart) in ["Always", "OnFailure", "Never", "ExitCode"].into_iter().enumerate() {
            for as_one in [false, true] {
                let clean = cleans[(i + usize::from(as_one)) % cleans.len()];
                let detail = Detail { limit: Some(1), search: true, as_one, clean, ..Detail::default() };
                if let Some(job) = Job::new(kind, &shape, restart, detail) {
                    let name = format!("{} {shape:?} {restart} {detail:?}", kind.name);
                    jobs.push(Searched { name, job, faults });
                }
            }
        }
    }
    jobs
}

#[test]
fn search_every_life_with_so_many_faults() {
    let faults = std::env::var("TRAINYARD_SEARCH_FAULTS").map_or(1, |text| text.parse().unwrap());
    let jobs = kinds::ALL.iter().flat_map(|kind| searched(kind, faults)).collect::<Vec<_>>().into_iter();
    let next = Mutex::new(jobs);
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(Searched { name, mut job, faults }) = next.lock().unwrap().next() else { return };
            let result = search::search(&mut job, faults);
            found.lock().unwrap().push((name, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let found = found.into_inner().unwrap();
    let states: usize = found.iter().map(|(_, found)| found.states).sum();
    let depth = found.iter().map(|(_, found)| found.depth).max().unwrap_or(0);
    println!("{} jobs, up to {faults} faults: {states} states, up to {depth} moves deep", found.len());
    let wrong = found.iter().filter_map(|(name, found)| Some(format!("{name}: {}", found.wrong.as_ref()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} jobs go wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(states > 300_000, "{states} states are not all");
}
