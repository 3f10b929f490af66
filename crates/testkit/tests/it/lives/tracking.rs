//! Pods that vanish: what a replica has done is done, whether or not anybody saw its pod.

use std::time::Duration;

use serde_json::Value;
use trainyard_testkit::rest;
use trainyard_testkit::{Crds, Job, Plane, PodInfo, PodScript, jax, mpi, paddle, pytorch, tf, xgboost};

crate::under_both!(
    a_deleted_job_lets_its_pods_go,
    a_deleted_job_that_left_its_pods_behind_lets_them_go,
    a_finished_job_leaves_nothing_on_its_pods,
    a_pod_deleted_while_it_runs_is_counted_and_goes,
    a_pod_that_obeyed_while_nobody_looked_has_not_succeeded,
);

/// One job of three replicas of every kind, and a fourth replica that goes on: the job is not over when they are.
fn jobs() -> [Job; 6] {
    [
        pytorch("a").workers(4),
        tf("a").chief().workers(3),
        jax("a").workers(4),
        paddle("a").workers(4),
        xgboost("a").master().workers(3),
        mpi("a").launcher().workers(3),
    ]
}

/// The replica whose end decides goes on; the others succeed.
fn last_goes_on(pod: &PodInfo) -> PodScript {
    let decides = ["a-chief-0", "a-master-0", "a-launcher", "a-worker-3"].contains(&pod.name.as_str());
    if decides { PodScript::exits(0, 3_000) } else { PodScript::exits(0, 5) }
}

fn short(pod: &Value) -> bool {
    !["a-chief-0", "a-master-0", "a-launcher", "a-worker-3"].contains(&rest::name(pod))
}

fn subsets() -> impl Iterator<Item = Vec<usize>> {
    (1..8_usize).map(|mask| (0..3).filter(|bit| mask >> bit & 1 == 1).collect())
}

async fn start(tracks: bool, job: &Job) -> Plane {
    let builder = Plane::builder().options(|options| options.plan.track_pods = tracks);
    let plane = builder.scripts(last_goes_on).start().await;
    plane.create(job.clone()).await;
    plane
}

/// All short replicas have succeeded, as the API has it.
async fn three_succeed(plane: &Plane) -> Vec<String> {
    let world = plane.until("three have succeeded", |world| world.in_phase("a", "Succeeded") == 3).await;
    let mut names: Vec<String> =
        world.pods("a").iter().filter(|pod| short(pod)).map(|pod| rest::name(pod).to_owned()).collect();
    names.sort();
    assert_eq!(names.len(), 3);
    names
}

/// Nobody runs twice, and the job succeeds.
async fn ends_well(plane: &Plane, what: &str) {
    let world = plane.finished("a").await;
    assert!(world.is("a", "Succeeded"), "{what}: {}", world.shape("a"));
    for run in plane.history().replica_runs() {
        assert_eq!(plane.history().count(&run.pod.name), 1, "{what}: {} ran again", run.pod.name);
    }
}

#[tokio::test(start_paused = true)]
async fn completed_pods_deleted_after_they_were_seen_are_not_made_again() {
    for job in jobs() {
        for subset in subsets() {
            let plane = start(false, &job).await;
            let names = three_succeed(&plane).await;
            plane.pass(Duration::from_secs(5)).await;
            plane.restart_operator().await;
            for at in &subset {
                plane.delete_pod(&names[*at]).await;
            }
            let what = format!("{} without {subset:?}", job.kind());
            plane.restart_operator().await;
            ends_well(&plane, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn completed_pods_deleted_unseen_are_not_made_again() {
    for job in jobs() {
        for subset in subsets() {
            let plane = start(true, &job).await;
            plane.until("all run", |world| world.in_phase("a", "Running") == 4).await;
            plane.stop_operator().await;
            let names = three_succeed(&plane).await;
            // In the same second nobody could tell whether they ended or were ended.
            plane.pass(Duration::from_secs(2)).await;
            for at in &subset {
                plane.delete_pod(&names[*at]).await;
            }
            plane.pass(Duration::from_secs(60)).await;
            plane.start_operator().await;
            let what = format!("{} without {subset:?}", job.kind());
            let gone =
                |world: &trainyard_testkit::World| subset.iter().all(|at| world.pod(&names[*at]).is_none());
            plane.until("they go once they are counted", gone).await;
            ends_well(&plane, &what).await;
        }
    }
}

/// A job that goes on, of four replicas.
async fn running(crds: Crds) -> Plane {
    let builder = Plane::builder().crds(crds).options(|options| options.plan.track_pods = true);
    let plane = builder.scripts(|_| PodScript::runs()).start().await;
    plane.create(pytorch("a").master().workers(3)).await;
    plane.until("all run", |world| world.in_phase("a", "Running") == 4).await;
    plane
}

async fn a_deleted_job_lets_its_pods_go(crds: Crds) {
    for kept in [false, true] {
        let plane = running(crds.clone()).await;
        if kept {
            // Nobody is there when the job goes.
            plane.stop_operator().await;
        }
        plane.delete("PyTorchJob", "a").await;
        if kept {
            plane.pass(Duration::from_secs(60)).await;
            assert_eq!(plane.pods().await.len(), 4, "they wait for an operator");
            plane.start_operator().await;
        }
        plane.until("all is gone", |world| world.job("a").is_none() && world.pods("a").is_empty()).await;
    }
}

async fn a_deleted_job_that_left_its_pods_behind_lets_them_go(crds: Crds) {
    let plane = running(crds).await;
    let path = plane.path("PyTorchJob", "a");
    plane.rest().delete(&path, &serde_json::json!({ "propagationPolicy": "Orphan" })).await.unwrap();
    plane
        .until("nothing is left on them", |world| {
            world.job("a").is_none()
                && world.pods("a").iter().all(|pod| pod["metadata"]["finalizers"].is_null())
        })
        .await;
    assert_eq!(plane.pods().await.len(), 4, "they were to stay");
}

async fn a_finished_job_leaves_nothing_on_its_pods(crds: Crds) {
    let builder = Plane::builder().crds(crds).options(|options| options.plan.track_pods = true);
    let plane = builder.scripts(|_| PodScript::exits(0, 5)).start().await;
    plane.create(pytorch("a").master().workers(2)).await;
    plane.finished("a").await;
    plane
        .until("they are let go", |world| {
            let pods = world.pods("a");
            pods.len() == 3 && pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null())
        })
        .await;
    plane.delete("PyTorchJob", "a").await;
    plane.until("all is gone", |world| world.pods("a").is_empty()).await;
}

async fn a_pod_deleted_while_it_runs_is_counted_and_goes(crds: Crds) {
    let plane = running(crds).await;
    let before = plane.world();
    let uid = before.pod("a-worker-1").unwrap()["metadata"]["uid"].clone();
    plane.delete_pod("a-worker-1").await;
    plane
        .until("its successor runs", |world| {
            world.phase("a-worker-1") == "Running"
                && world.pod("a-worker-1").unwrap()["metadata"]["uid"] != uid
        })
        .await;
    assert!(plane.history().overlaps().is_empty());
}

/// What tracking is for: otherwise nobody knows.
#[tokio::test(start_paused = true)]
async fn without_tracking_a_pod_that_vanished_unseen_runs_again() {
    let plane = start(false, &jax("a").workers(4)).await;
    plane.until("all run", |world| world.in_phase("a", "Running") == 4).await;
    plane.stop_operator().await;
    let names = three_succeed(&plane).await;
    plane.delete_pod(&names[0]).await;
    plane.until("it is gone", |world| world.pod(&names[0]).is_none()).await;
    plane.start_operator().await;
    plane.finished("a").await;
    assert_eq!(plane.history().count(&names[0]), 2);
}

async fn a_pod_that_obeyed_while_nobody_looked_has_not_succeeded(crds: Crds) {
    let builder = Plane::builder().crds(crds).options(|options| options.plan.track_pods = true);
    let obeys = |_: &PodInfo| PodScript::runs().obeys(Duration::from_millis(50), 0);
    let plane = builder.scripts(obeys).start().await;
    plane.create(pytorch("a").master()).await;
    plane.until("it runs", |world| world.phase("a-master-0") == "Running").await;
    plane.stop_operator().await;
    plane.delete_pod("a-master-0").await;
    plane.pass(Duration::from_secs(10)).await;
    plane.start_operator().await;
    plane.until("it runs again", |world| world.phase("a-master-0") == "Running").await;
    assert_eq!(plane.history().count("a-master-0"), 2);
    assert!(!plane.world().is_finished("a"), "{}", plane.world().shape("a"));
}
