//! Whatever goes wrong on the wire, jobs end as if nothing had.
//!
//! Each run has a seed; a run that fails names it. `TRAINYARD_CHAOS_SEED` runs that one alone, and
//! `TRAINYARD_CHAOS_RUNS` says how many there are.

use std::collections::BTreeMap;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::in_virtual_time;
use serde_json::{Value, json};
use trainyard_testkit::plane::shape;
use trainyard_testkit::rest::{name, text};
use trainyard_testkit::{Death, Faults, Job, Moment, Plane, PodInfo, PodScript, Rates, World, pytorch, tf};

/// A few jobs that between them go every road: success, failure, restarts by us and by the kubelet, an eviction, a
/// time to live, a clean-up. Every stretch is long beside the delays, so that the end does not depend on them.
fn jobs() -> Vec<Job> {
    vec![
        pytorch("plain").master().workers(2).clean("Running"),
        tf("retried").chief().workers(1).restart("ExitCode").backoff_limit(3),
        tf("hopeless").workers(2).restart("ExitCode").backoff_limit(2).clean("All"),
        pytorch("in-place").workers(1).restart("OnFailure").backoff_limit(3),
        tf("never").workers(2).restart("Never").clean("None"),
        pytorch("evicted").master().workers(1).backoff_limit(0),
        tf("short").workers(1).ttl(30),
    ]
}

/// Seconds that outlast a dozen failed writes in a row: a look at a job that failed so often is repeated after a minute,
/// and with the highest rate of faults that happens once in some thousand runs.
const LONG: u64 = 1500;

fn script(pod: &PodInfo) -> PodScript {
    match (pod.job.as_str(), pod.slot().as_str(), pod.earlier) {
        ("plain", "master-0", _) => PodScript::exits(0, 250),
        ("retried", "worker-0", 0 | 1) => PodScript::exits(137, 40),
        ("retried", "chief-0", _) => PodScript::exits(0, LONG),
        ("hopeless", "worker-1", _) => PodScript::exits(137, 40),
        ("in-place", ..) => {
            let mut script = PodScript::exits_in_turn(&[1, 1, 0]);
            if let trainyard_testkit::End::Exits(exits) = &mut script.end {
                exits.iter_mut().for_each(|exit| exit.after = Duration::from_secs(50));
            }
            script
        }
        ("never", "worker-1", _) => PodScript::exits(1, 250),
        ("evicted", "worker-0", 0) => PodScript::evicted(60),
        ("evicted", "master-0", _) => PodScript::exits(0, LONG),
        ("short", ..) => PodScript::exits(0, 60),
        _ => PodScript::runs(),
    }
}

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

/// Jobs whose users do not leave them alone.
fn restless_jobs() -> Vec<Job> {
    vec![
        pytorch("paused").master().workers(2).clean("Running"),
        tf("scaled").workers(2).ps(1).clean("All"),
        pytorch("bereft").master().workers(2).backoff_limit(0),
        tf("unwanted").workers(2),
    ]
}

fn restless_script(pod: &PodInfo) -> PodScript {
    match (pod.job.as_str(), pod.slot().as_str(), pod.attempt) {
        ("paused", "master-0", 1..) => PodScript::exits(0, 600),
        ("scaled", "worker-0", _) => PodScript::exits(0, 2400),
        ("bereft", "master-0", _) => PodScript::exits(0, 1500),
        _ => PodScript::runs(),
    }
}

/// What the users do, with minutes in between: long beside every delay, as above.
async fn act(plane: &Plane) {
    let workers = |n: u32| json!({ "spec": { "tfReplicaSpecs": { "Worker": { "replicas": n } } } });
    plane.pass(Duration::from_secs(600)).await;
    plane.suspend("PyTorchJob", "paused", true).await;
    plane.patch("TFJob", "scaled", workers(4)).await;
    plane.delete_pod("bereft-worker-1").await;
    plane.delete("TFJob", "unwanted").await;
    plane.pass(Duration::from_secs(600)).await;
    plane.suspend("PyTorchJob", "paused", false).await;
    plane.patch("TFJob", "scaled", workers(1)).await;
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

/// One run with quiet users. `seed` 0 is the one without faults.
async fn quiet(seed: u64) -> Outcome {
    let (faults, deaths) = trouble(seed);
    let plane = Plane::builder().scripts(script).faults(&faults).deaths(deaths).start().await;
    let mut names = Vec::new();
    for job in jobs() {
        names.push(name(&plane.create(job).await).to_owned());
    }
    // The one with a time to live may be gone before it is seen to have ended.
    let is_over = |w: &World, name: &str| {
        w.is_finished(name)
            || (name == "short" && w.job(name).is_none() && w.jobs().count() == names.len() - 1)
    };
    plane.until("all have ended", |w| names.iter().all(|name| is_over(w, name))).await;
    settled(&plane, &faults, seed).await
}

/// One run with restless users.
async fn restless(seed: u64) -> Outcome {
    let (faults, deaths) = trouble(seed);
    let plane = Plane::builder().scripts(restless_script).faults(&faults).deaths(deaths).start().await;
    for job in restless_jobs() {
        plane.create(job).await;
    }
    act(&plane).await;
    let left = ["paused", "scaled", "bereft"];
    plane.until("all have ended", |w| left.iter().all(|name| w.is_finished(name))).await;
    settled(&plane, &faults, seed).await
}

/// What is left when everything has healed.
async fn settled(plane: &Plane, faults: &Faults, seed: u64) -> Outcome {
    faults.heal();
    plane.pass(Duration::from_secs(600)).await;
    assert!(plane.history().overlaps().is_empty(), "two pods in one place");
    assert!(plane.history().mixed_attempts("paused").is_empty(), "two attempts at one time");
    assert_eq!(plane.operator_failure(), None);
    if seed > 0 {
        assert!(faults.count() > 5, "only {} faults: this proves nothing", faults.count());
    }
    outcome(plane).await
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
    compare(quiet, runs() / 2);
}

#[test]
fn restless_jobs_end_as_without_faults() {
    compare(restless, runs().div_ceil(2));
}

#[test]
fn the_run_without_faults_is_as_expected() {
    let outcome = in_virtual_time(quiet(0));
    let ends: BTreeMap<&str, &str> =
        outcome.jobs.iter().map(|(name, (shape, _))| (name.as_str(), shape.as_str())).collect();
    let succeeded = "Created=T Running=F Succeeded=T";
    let failed = "Created=T Running=F Failed=T";
    let expected = [
        ("evicted", succeeded),
        ("hopeless", failed),
        ("in-place", succeeded),
        ("never", failed),
        ("plain", succeeded),
        ("retried", succeeded),
    ];
    assert_eq!(ends, BTreeMap::from(expected));
    for (pod, runs) in
        [("retried-worker-0", 3), ("hopeless-worker-1", 3), ("in-place-worker-0", 3), ("evicted-worker-0", 2)]
    {
        assert_eq!(outcome.runs[pod], runs, "{pod}");
    }
}

#[test]
fn the_restless_run_without_faults_is_as_expected() {
    let outcome = in_virtual_time(restless(0));
    let runs = |pod: &str| outcome.runs.get(pod).copied().unwrap_or(0);
    for (pod, expected) in [
        ("paused-master-0", 2),
        ("paused-worker-1", 2),
        ("scaled-worker-0", 1),
        ("scaled-worker-3", 1),
        ("bereft-worker-0", 1),
        ("bereft-worker-1", 2),
        ("unwanted-worker-0", 1),
    ] {
        assert_eq!(runs(pod), expected, "{pod}");
    }
    assert!(outcome.jobs.values().all(|(shape, _)| shape.ends_with("Running=F Succeeded=T")), "{outcome:?}");
    assert!(!outcome.jobs.contains_key("unwanted"));
}
