//! Jobs that their users leave alone.

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard_testkit::rest::name;
use trainyard_testkit::{Job, Plane, PodInfo, PodScript, World, pytorch, tf};

use super::{Outcome, settled, trouble};
use crate::support::in_virtual_time;

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

/// One run with quiet users. `seed` 0 is the one without faults.
pub(super) async fn run(seed: u64) -> Outcome {
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

#[test]
fn the_run_without_faults_is_as_expected() {
    let outcome = in_virtual_time(run(0));
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
