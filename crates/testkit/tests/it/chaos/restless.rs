//! Jobs that their users suspend, scale, bereave and delete.

use std::time::Duration;

use trainyard_testkit::{Job, Plane, PodInfo, PodScript, pytorch, tf};

use super::{Outcome, settled, trouble};
use crate::support::in_virtual_time;

/// Jobs whose users do not leave them alone.
fn jobs() -> Vec<Job> {
    vec![
        pytorch("paused").master().workers(2).clean("Running"),
        tf("scaled").workers(2).ps(1).clean("All"),
        pytorch("bereft").master().workers(2).backoff_limit(0),
        tf("unwanted").workers(2),
    ]
}

fn script(pod: &PodInfo) -> PodScript {
    match (pod.job.as_str(), pod.slot().as_str()) {
        // Suspended long before. The second run may be called the first: a suspension goes on when the server refuses the
        // record that would count it.
        ("paused", "master-0") | ("bereft", "master-0") => PodScript::exits(0, 1500),
        ("scaled", "worker-0") => PodScript::exits(0, 2400),
        _ => PodScript::runs(),
    }
}

/// What the users do, with minutes in between: long beside every delay, as above.
async fn act(plane: &Plane) {
    plane.pass(Duration::from_secs(600)).await;
    plane.suspend("PyTorchJob", "paused", true).await;
    plane.scale("TFJob", "scaled", "Worker", 4).await;
    plane.delete_pod("bereft-worker-1").await;
    plane.delete("TFJob", "unwanted").await;
    plane.pass(Duration::from_secs(600)).await;
    plane.suspend("PyTorchJob", "paused", false).await;
    plane.scale("TFJob", "scaled", "Worker", 1).await;
}

/// One run with restless users.
pub(super) async fn run(seed: u64) -> Outcome {
    let (faults, deaths) = trouble(seed);
    let plane = Plane::builder().scripts(script).faults(&faults).deaths(deaths).start().await;
    for job in jobs() {
        plane.create(job).await;
    }
    act(&plane).await;
    let left = ["paused", "scaled", "bereft"];
    plane.until("all have ended", |w| left.iter().all(|name| w.is_finished(name))).await;
    settled(&plane, &faults, seed).await
}

#[test]
fn the_restless_run_without_faults_is_as_expected() {
    let outcome = in_virtual_time(run(0));
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
