//! Whatever goes wrong on the wire, on nodes and with users, jobs end as if nothing had.
//!
//! Each run has a seed; a run that fails names it. `TRAINYARD_CHAOS_SEED` runs that one alone, and
//! `TRAINYARD_CHAOS_RUNS` says how many there are.

mod hostile;
mod quiet;
mod restless;

use std::collections::BTreeMap;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::in_virtual_time;
use serde_json::Value;
use trainyard_testkit::plane::shape;
use trainyard_testkit::rest::{name, text};
use trainyard_testkit::{Death, Faults, Moment, Plane, Rates};

/// What must not depend on luck: how each job ended, what is left of it, and how often each replica ran.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    jobs: BTreeMap<String, (String, String)>,
    pods: BTreeMap<String, String>,
    services: Vec<String>,
    runs: BTreeMap<String, usize>,
}

async fn outcome(plane: &Plane) -> Outcome {
    let world = plane.world();
    let summary = |job: &Value| (shape(job), job["status"]["replicaStatuses"].to_string());
    let mut runs = BTreeMap::new();
    for run in plane.history().replica_runs() {
        *runs.entry(run.pod.name).or_default() += 1;
    }
    Outcome {
        jobs: world.jobs().map(|job| (name(job).to_owned(), summary(job))).collect(),
        pods: plane
            .pods()
            .await
            .iter()
            .map(|pod| (name(pod).to_owned(), text(pod, "/status/phase").to_owned()))
            .collect(),
        services: plane.services().await.iter().map(|service| name(service).to_owned()).collect(),
        runs,
    }
}

/// What goes wrong in one run.
fn trouble(seed: u64) -> (Faults, Vec<Death>) {
    if seed == 0 {
        return (Faults::none(), Vec::new());
    }
    let rate = [0.02, 0.05, 0.12][usize::try_from(seed % 3).unwrap()];
    // Every fourth run also kills the operator a few times.
    let deaths = (0..if seed.is_multiple_of(4) { 4 } else { 0 }).map(|i| Death {
        write: 1 + (seed * 7 + i * 13) % 40,
        moment: if (seed + i).is_multiple_of(2) { Moment::Before } else { Moment::After },
    });
    (Faults::new(seed, Rates::all(rate), 300), deaths.collect())
}

/// What is left when everything has healed.
async fn settled(plane: &Plane, faults: &Faults, seed: u64) -> Outcome {
    faults.heal();
    plane.pass(Duration::from_secs(600)).await;
    assert!(plane.history().overlaps().is_empty(), "two pods in one place");
    assert_eq!(plane.history().mixed_attempts().first(), None, "two attempts at one time");
    assert_eq!(plane.operator_failure(), None);
    ends_are_ends(plane);
    if seed > 0 {
        assert!(faults.count() > 5, "only {} faults: this proves nothing", faults.count());
    }
    let outcome = outcome(plane).await;
    has_nothing_left_to_do(plane).await;
    outcome
}

/// Conditions of a job that has ended never change.
fn ends_are_ends(plane: &Plane) {
    let world = plane.world();
    for job in world.jobs() {
        let shapes = world.shapes(name(job));
        let is_end = |shape: &&String| shape.contains("Succeeded=T") || shape.contains("Failed=T");
        assert!(shapes.iter().filter(is_end).count() <= 1, "{}: {shapes:?}", name(job));
    }
}

/// Another operator looks at everything, and writes nothing.
async fn has_nothing_left_to_do(plane: &Plane) {
    plane.restart_operator().await;
    let writes = plane.writes_of_the_dead();
    plane.pass(Duration::from_secs(120)).await;
    plane.stop_operator().await;
    assert_eq!(plane.writes_of_the_dead() - writes, 0, "a second look writes");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Runs all seeds on all cores and compares each with the run without faults.
fn compare<F: Future<Output = Outcome>>(run: impl Fn(u64) -> F + Sync + RefUnwindSafe, runs: u64) {
    let expected = in_virtual_time(run(0));
    let seeds = match number("TRAINYARD_CHAOS_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=runs,
    };
    let next = AtomicU64::new(*seeds.start());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if !seeds.contains(&seed) {
                return;
            }
            // A panic has said what went wrong; this says in which run.
            let outcome = std::panic::catch_unwind(|| in_virtual_time(run(seed))).ok();
            assert_eq!(outcome.as_ref(), Some(&expected), "TRAINYARD_CHAOS_SEED={seed}");
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

fn runs() -> u64 {
    number("TRAINYARD_CHAOS_RUNS").unwrap_or(1000)
}

#[test]
fn quiet_jobs_end_as_without_faults() {
    compare(quiet::run, runs() * 2 / 5);
}

#[test]
fn restless_jobs_end_as_without_faults() {
    compare(restless::run, runs() * 2 / 5);
}

/// One of these runs takes as long as three of the others.
#[test]
fn jobs_in_a_hostile_world_end_as_in_a_kind_one() {
    compare(hostile::run, runs().div_ceil(5));
}
