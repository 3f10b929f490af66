//! Jobs in a world in which administrators drain nodes, users damage what they do not understand, nodes refuse pods and
//! have wrong clocks. All of it costs time, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use trainyard_api::labels;
use trainyard_testkit::clock::BASE_SECOND;
use trainyard_testkit::rest::{name, text};
use trainyard_testkit::{Job, Plane, PodInfo, PodScript, pytorch, tf};

use super::{Outcome, settled, trouble};
use crate::support::in_virtual_time;

/// Jobs whose pods may be drained or refused at any time: that costs them nothing.
const MOVED: [&str; 6] = ["steady", "retried", "hopeless", "hopeless-copy", "scaled", "paused"];
/// Jobs whose record may be damaged at any time: they have no failures that only the record could count.
const FORGETFUL: [(&str, &str); 5] = [
    ("PyTorchJob", "steady"),
    ("TFJob", "scaled"),
    ("PyTorchJob", "paused"),
    ("TFJob", "never"),
    ("TFJob", "once"),
];
/// Jobs that are copied when they have ended.
const COPIED: [&str; 2] = ["hopeless", "short"];
/// The replica whose second failure is its last. Only failures of its own may come between them.
const COUNTED: &str = "retried-worker-0";

/// Seconds of mischief before and after the copies are made.
const HALF: u64 = 600;
/// Seconds that outlast all mischief, with time to recover from the last of it.
const LONG: u64 = 2400;

fn jobs() -> Vec<Job> {
    vec![
        pytorch("steady").master().workers(2).clean("Running").backoff_limit(0),
        tf("retried").chief().workers(2).restart("ExitCode").backoff_limit(2),
        tf("hopeless").workers(2).restart("ExitCode").backoff_limit(2).clean("All"),
        tf("scaled").workers(2).ps(1).restart("OnFailure").clean("All").backoff_limit(0),
        pytorch("paused").master().workers(1).clean("Running").backoff_limit(0),
        tf("never").workers(2).restart("Never").clean("None"),
        tf("once").workers(2).restart("Never"),
        tf("short").workers(1),
    ]
}

/// What the programs do. A copy does what the original does.
fn program(pod: &PodInfo) -> PodScript {
    match (pod.job.trim_end_matches("-copy"), pod.slot().as_str(), pod.earlier) {
        ("steady", "worker-0", _) => PodScript::exits(0, 300),
        ("retried", "worker-0", 0 | 1) | ("hopeless", "worker-1", _) => PodScript::exits(137, 40),
        ("never", "worker-1", _) => PodScript::exits(1, LONG),
        ("short", ..) => PodScript::exits(0, 60),
        ("steady" | "paused", "master-0", _)
        | ("retried", "chief-0", _)
        | ("scaled" | "once", "worker-0", _) => PodScript::exits(0, LONG),
        _ => PodScript::runs(),
    }
}

/// What the nodes make of it. Half of them have wrong clocks, all programs exit with 0 when they are asked to end, and for
/// some minutes there is a node that refuses a third of the replicas.
fn script(seed: u64, pod: &PodInfo) -> PodScript {
    let script = program(pod);
    if seed == 0 {
        return script;
    }
    let letters = pod.name.bytes().map(u64::from).sum::<u64>();
    let mut dice = StdRng::seed_from_u64(seed ^ (letters << 20) ^ (u64::from(pod.earlier) << 40));
    let began = BASE_SECOND + [0, 250, 700][usize::try_from(seed % 3).unwrap()];
    let refuses = (began..began + 240).contains(&pod.seen.as_second()) && (letters + seed).is_multiple_of(3);
    if refuses && MOVED.contains(&pod.job.as_str()) && pod.name != COUNTED {
        return PodScript::refused();
    }
    let skew = SignedDuration::from_hours([0, 0, 1, -1][dice.random_range(0..4)]);
    let after = Duration::from_millis([0, 50, 5000][dice.random_range(0..3)]);
    PodScript { skew, ..script.obeys(after, 0) }
}

/// Minutes in which anything may happen at any time. In the end everybody wants what they wanted before.
async fn mischief(plane: &Plane, dice: &mut StdRng, seed: u64) {
    let mut left = HALF;
    loop {
        let wait = dice.random_range(10..110);
        if seed == 0 || wait > left {
            break;
        }
        left -= wait;
        plane.pass(Duration::from_secs(wait)).await;
        misbehave(plane, dice).await;
    }
    plane.pass(Duration::from_secs(left)).await;
    for job in plane.world().jobs() {
        plane.clear_annotations(text(job, "/kind"), name(job)).await;
    }
    plane.suspend("PyTorchJob", "paused", false).await;
    plane.scale("TFJob", "scaled", "Worker", 2).await;
}

async fn misbehave(plane: &Plane, dice: &mut StdRng) {
    let (kind, job) = FORGETFUL[dice.random_range(0..FORGETFUL.len())];
    match dice.random_range(0..12) {
        0..=4 => drain(plane, dice).await,
        5 => plane.strip(kind, job).await,
        6 => plane.forge_record(kind, job, "[\"no\", {\"record\": 1}]").await,
        7 => plane.forge_record(kind, job, &record_of(plane, "TFJob", "retried").await).await,
        8 => fill(plane, dice).await,
        9 => plane.suspend("PyTorchJob", "paused", dice.random()).await,
        10 => plane.scale("TFJob", "scaled", "Worker", dice.random_range(1..=4)).await,
        _ => plane.replace_operator().await,
    }
}

/// Somebody drains the node of a pod that trains.
async fn drain(plane: &Plane, dice: &mut StdRng) {
    let is_moved = |pod: &&Value| {
        let job = pod["metadata"]["labels"][labels::JOB_NAME].as_str().unwrap_or_default();
        MOVED.contains(&job) && name(pod) != COUNTED
    };
    let trains = |pod: &&Value| {
        text(pod, "/status/phase") == "Running" && pod["metadata"].get("deletionTimestamp").is_none()
    };
    let pods = plane.pods().await;
    let pods: Vec<&Value> = pods.iter().filter(is_moved).filter(trains).collect();
    if !pods.is_empty() {
        plane.drain_pod(name(pods[dice.random_range(0..pods.len())])).await;
    }
}

/// A user writes so much into the annotations of a job that the record has no room to grow.
async fn fill(plane: &Plane, dice: &mut StdRng) {
    let world = plane.world();
    let jobs: Vec<&Value> = world.jobs().collect();
    let job = jobs[dice.random_range(0..jobs.len())];
    plane.fill_annotations(text(job, "/kind"), name(job), dice.random_range(0..40)).await;
}

async fn record_of(plane: &Plane, kind: &str, job: &str) -> String {
    let job = plane.job(kind, job).await.unwrap();
    job["metadata"]["annotations"][labels::RECORD].as_str().unwrap_or_default().to_owned()
}

/// One run. `seed` 0 is the one in which nothing happens to the jobs but that some are copied.
pub(super) async fn run(seed: u64) -> Outcome {
    let (faults, deaths) = trouble(seed);
    let mut dice = StdRng::seed_from_u64(seed);
    let builder = Plane::builder().faults(&faults).deaths(deaths);
    let builder = builder.options(|options| options.plan.track_pods = !seed.is_multiple_of(2));
    let plane = builder.scripts(move |pod| script(seed, pod)).start().await;
    for job in jobs() {
        plane.create(job).await;
    }
    mischief(&plane, &mut dice, seed).await;
    plane.until("two have ended", |w| COPIED.iter().all(|name| w.is_finished(name))).await;
    for name in COPIED {
        plane.copy("TFJob", name, &format!("{name}-copy")).await;
    }
    mischief(&plane, &mut dice, seed).await;
    plane
        .until("all have ended", |w| w.jobs().count() == 10 && w.jobs().all(|job| w.is_finished(name(job))))
        .await;
    let outcome = settled(&plane, &faults, seed).await;
    let most = plane.history().refused().into_values().max().unwrap_or(0);
    assert!(most <= 20, "a node refused {most} pods of one replica in four minutes");
    Outcome { jobs: ends(&plane), runs: own_ends(&plane), ..outcome }
}

/// How each job ended. The conditions before that, and who was alive then, depend on luck.
fn ends(plane: &Plane) -> BTreeMap<String, (String, String)> {
    let world = plane.world();
    let end =
        |job: &Value| ["Succeeded", "Failed"].into_iter().filter(|end| world.is(name(job), end)).collect();
    world.jobs().map(|job| (name(job).to_owned(), (end(job), String::new()))).collect()
}

/// How often the program of each replica ended by itself.
fn own_ends(plane: &Plane) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for run in plane.history().replica_runs().into_iter().filter(|run| run.own) {
        *ends.entry(run.pod.name).or_default() += 1;
    }
    ends
}

#[test]
fn the_kind_run_is_as_expected() {
    let outcome = in_virtual_time(run(0));
    let failed: Vec<&String> =
        outcome.jobs.iter().filter(|(_, (end, _))| end == "Failed").map(|(name, _)| name).collect();
    assert_eq!(failed, ["hopeless", "hopeless-copy", "never"]);
    assert!(outcome.jobs.values().all(|(end, _)| ["Succeeded", "Failed"].contains(&end.as_str())));
    let expected = [
        ("hopeless-copy-worker-1", 3),
        ("hopeless-worker-1", 3),
        ("never-worker-1", 1),
        ("once-worker-0", 1),
        ("paused-master-0", 1),
        ("retried-chief-0", 1),
        ("retried-worker-0", 2),
        ("scaled-worker-0", 1),
        ("short-copy-worker-0", 1),
        ("short-worker-0", 1),
        ("steady-master-0", 1),
        ("steady-worker-0", 1),
    ];
    assert_eq!(outcome.runs, expected.map(|(name, ends)| (name.to_owned(), ends)).into());
}
