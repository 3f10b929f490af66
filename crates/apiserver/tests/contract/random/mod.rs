//! Random requests, answered by the embedded server and by a real one. What differs is made small and printed as a row.
//!
//! | variable | what it does |
//! |---|---|
//! | `TRAINYARD_SEED=N` or `random` | begins with another case |
//! | `TRAINYARD_BESIDE_RUNS=N` | tries so many cases |

mod dice;
mod game;
mod judge;
mod moves;
mod patches;
mod print;
mod shrink;
mod world;

use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::servers;
use game::Case;
use judge::{Finding, Judge, Verdict};

/// Cases of a run that has no number.
const RUNS: u64 = 250;
/// Cases at once.
const PARALLEL: usize = 4;
/// How many differences are made small.
const SHOWN: usize = 20;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seed() -> u64 {
    match env::var("TRAINYARD_SEED").as_deref() {
        // Small enough to be typed.
        Ok("random") => RandomState::new().build_hasher().finish() >> 24,
        _ => number("TRAINYARD_SEED").unwrap_or(1),
    }
}

/// What was found, by sort.
#[derive(Default)]
struct Found {
    differ: BTreeMap<String, (usize, Case, Finding)>,
    void: BTreeMap<u64, String>,
    requests: usize,
}

impl Found {
    fn add(&mut self, case: Case, verdict: Verdict) {
        self.requests += case.requests();
        match verdict {
            Verdict::Same => {}
            Verdict::Void(why) => drop(self.void.insert(case.seed, why)),
            Verdict::Differs(finding) => {
                let entry = self.differ.entry(finding.sort.clone());
                entry.and_modify(|(count, ..)| *count += 1).or_insert((1, case, *finding));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_answer_random_requests_alike() {
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    if is("TRAINYARD_CONTRACT", "embedded")
        || is("TRAINYARD_RECORD", "1")
        || env::var("TRAINYARD_CONTRACT_ROW").is_ok()
    {
        return;
    }
    let Some(real) = servers::real().await else { return };
    let embedded = servers::Embedded::start().await;
    crate::define(&embedded.target).await;
    let judge = Judge::new(&embedded.target, &real.target);
    let (seed, runs) = (seed(), number("TRAINYARD_BESIDE_RUNS").unwrap_or(RUNS));
    let found = play(&judge, seed, runs).await;
    println!("{runs} cases from seed {seed}, {} requests, {} cases void", found.requests, found.void.len());
    let reports = reports(&judge, &found).await;
    embedded.stop().await;
    let few = u64::try_from(found.void.len()).unwrap() * 20 <= runs;
    assert!(few, "neither server could run these: {:?}", found.void);
    assert!(reports.is_empty(), "\n{}\n{} differences", reports.join("\n"), found.differ.len());
}

async fn play(judge: &Judge<'_>, seed: u64, runs: u64) -> Found {
    let cases = (0..runs).map(|index| async move {
        let case = Case::draw(&judge.world, seed.wrapping_add(index));
        let verdict = judge.judge(&case).await;
        (case, verdict)
    });
    let mut found = Found::default();
    let mut answers = stream::iter(cases).buffer_unordered(PARALLEL);
    while let Some((case, verdict)) = answers.next().await {
        found.add(case, verdict);
    }
    found
}

async fn reports(judge: &Judge<'_>, found: &Found) -> Vec<String> {
    let mut reports = Vec::new();
    for (sort, (count, case, finding)) in found.differ.iter().take(SHOWN) {
        let (small, finding) = shrink::shrink(judge, case.clone(), finding.clone()).await;
        let row = print::row(&small.row(&judge.world, &format!("seed-{}", small.seed)));
        reports.push(format!(
            "{sort}: {count} times, first with TRAINYARD_SEED={} TRAINYARD_BESIDE_RUNS=1\n{row}    {}\n",
            small.seed,
            finding.lines.join("\n    "),
        ));
    }
    reports.extend(found.differ.keys().skip(SHOWN).map(|sort| format!("also {sort}")));
    reports
}
