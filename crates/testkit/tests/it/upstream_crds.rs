//! The definitions of the operator we replace stay in the cluster: nothing may depend on ours.
//!
//! Lives, scenarios and the table of restarts run under both (`under_both!`); this is what is particular to it.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_testkit::{Crds, Plane, PodScript, pytorch, tf};

async fn plane(script: PodScript) -> Plane {
    Plane::builder().crds(Crds::Upstream).scripts(move |_| script.clone()).start().await
}

#[tokio::test(start_paused = true)]
async fn a_job_without_a_run_policy_runs() {
    let plane = plane(PodScript::exits(0, 10)).await;
    let created = plane.create(tf("a").workers(1)).await;
    assert!(created["spec"].get("runPolicy").is_none());
    assert!(plane.finished("a").await.is("a", "Succeeded"));
    assert_eq!(plane.job("TFJob", "a").await.unwrap()["spec"], created["spec"]);
}

/// What the engine must remember is in an annotation: a status field of ours would be pruned and forgotten.
#[tokio::test(start_paused = true)]
async fn the_budget_is_remembered_though_the_status_is_pruned() {
    let plane = plane(PodScript::exits(137, 20)).await;
    plane.create(tf("a").workers(1).restart("ExitCode").backoff_limit(2)).await;
    for _ in 0..40 {
        plane.replace_operator().await;
        plane.pass(Duration::from_secs(7)).await;
    }
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"));
    assert_eq!(plane.history().count("a-worker-0"), 3);
    let known = ["conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime"];
    let status = world.job("a").unwrap()["status"].as_object().unwrap().clone();
    assert!(status.keys().all(|key| known.contains(&key.as_str())), "{status:?}");
}

/// A status that never reads back as it was written would be written for ever.
#[tokio::test(start_paused = true)]
async fn a_quiet_job_is_not_written() {
    for crds in [Crds::Ours, Crds::Upstream, Crds::Open] {
        let plane = Plane::builder().crds(crds).scripts(|_| PodScript::runs()).start().await;
        plane.create(pytorch("a").master().workers(2).deadline(1_000_000)).await;
        plane.until("it runs", |w| w.in_phase("a", "Running") == 3 && w.is("a", "Running")).await;
        plane.settle().await;
        let version = |job: Option<Value>| job.unwrap()["metadata"]["resourceVersion"].clone();
        let before = version(plane.job("PyTorchJob", "a").await);
        plane.pass(Duration::from_secs(3600)).await;
        assert_eq!(version(plane.job("PyTorchJob", "a").await), before);
        plane.restart_operator().await;
        plane.pass(Duration::from_secs(3600)).await;
        assert_eq!(version(plane.job("PyTorchJob", "a").await), before);
    }
}

/// Fields that a newer operator put into the status are not ours to drop while they are stored.
#[tokio::test(start_paused = true)]
async fn a_null_in_a_stored_status_is_read() {
    let plane =
        Plane::builder().crds(Crds::Open).no_operator().scripts(|_| PodScript::exits(0, 5)).start().await;
    plane.create(tf("a").workers(1)).await;
    let path = format!("{}/status", plane.path("TFJob", "a"));
    let mut job = plane.job("TFJob", "a").await.unwrap();
    job["status"] = json!({ "conditions": null, "replicaStatuses": null });
    plane.rest().put(&path, &job).await.unwrap();
    plane.start_operator().await;
    assert!(plane.finished("a").await.is("a", "Succeeded"));
}
