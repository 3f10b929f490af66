//! To Succeeded and to Failed.

use std::time::Duration;

use trainyard_testkit::{Crds, End, Exit, Plane, PodInfo, PodScript, jax, mpi, pytorch, tf};

use crate::support::{plane, seconds};

crate::under_both!(
    pytorch_succeeds_with_its_master,
    tf_succeeds_with_its_chief,
    never_fails_at_the_first_failure,
    a_failed_job_stays_failed_whatever_happens,
    a_succeeded_job_never_starts_a_pod_again,
    a_finished_worker_is_not_run_again,
    a_short_life_shows_running,
    every_replica_is_created_once,
    a_limit_of_zero_leaves_the_node_nothing_to_restart,
    what_was_restarted_beyond_the_limit_is_stopped,
    replicas_that_are_done_early_restart_nothing,
    a_time_to_live_below_zero_is_none,
    an_exit_code_that_means_failure_fails_dynamic_workers_too,
    an_mpi_job_may_have_a_name_that_no_service_may_have,
);

/// Leaders end well after a minute, the others serve for ever.
fn leaders_end(pod: &PodInfo) -> PodScript {
    match pod.role.as_str() {
        "master" | "chief" => PodScript::exits(0, 60),
        _ => PodScript::runs(),
    }
}

async fn pytorch_succeeds_with_its_master(crds: Crds) {
    let plane = plane(crds, leaders_end).await;
    plane.create(pytorch("a").master().workers(2)).await;
    let world = plane.finished("a").await;
    assert_eq!(
        world.shapes("a"),
        ["", "Created=T", "Created=T Running=T", "Created=T Running=F Succeeded=T"]
    );
    let status = &world.job("a").unwrap()["status"];
    assert_eq!(seconds(&status["startTime"], &status["completionTime"]), 60);
    assert_eq!(status["conditions"][2]["reason"], "PyTorchJobSucceeded");
    assert_eq!(status["conditions"][2]["message"], "PyTorchJob a is successfully completed.");
    assert_eq!(world.count("a", "Master", "succeeded"), 1);
    assert_eq!(world.count("a", "Worker", "succeeded"), 2, "those that served have done their part");
    assert_eq!(world.count("a", "Worker", "active"), 0);
    let reasons = plane.event_reasons("a").await;
    for reason in ["PyTorchJobSucceeded", "SuccessfulCreatePod", "SuccessfulCreateService", "ExitedWithCode"]
    {
        assert!(reasons.iter().any(|r| r == reason), "no {reason} in {reasons:?}");
    }
}

async fn tf_succeeds_with_its_chief(crds: Crds) {
    let plane = plane(crds, leaders_end).await;
    plane.create(tf("a").chief().workers(2).ps(1)).await;
    let world = plane.finished("a").await;
    assert_eq!(
        world.shapes("a"),
        ["", "Created=T", "Created=T Running=T", "Created=T Running=F Succeeded=T"]
    );
    let condition = world.condition("a", "Succeeded").unwrap();
    assert_eq!(condition["message"], "TFJob default/a successfully completed.");
}

async fn never_fails_at_the_first_failure(crds: Crds) {
    let plane = plane(crds, |pod| match pod.slot().as_str() {
        "worker-1" => PodScript::exits(3, 30),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(pytorch("pt").master().workers(2).restart("Never")).await;
    plane.create(tf("tf").workers(2)).await;
    let world = plane.finished("pt").await;
    assert_eq!(world.shape("pt"), "Created=T Running=F Failed=T");
    let message = &world.condition("pt", "Failed").unwrap()["message"];
    assert_eq!(message, "PyTorchJob pt is failed because 1 Worker replica(s) failed.");
    let world = plane.finished("tf").await;
    assert_eq!(world.shape("tf"), "Created=T Running=F Failed=T");
    let message = &world.condition("tf", "Failed").unwrap()["message"];
    assert_eq!(message, "TFJob default/tf has failed because 1 Worker replica(s) failed.");
    assert_eq!(plane.history().count("pt-worker-1"), 1);
}

/// Kills, restarts and deletions after the end change nothing.
async fn disturb(plane: &Plane, pods: &[&str]) {
    for pod in pods {
        plane.delete_pod(pod).await;
    }
    plane.restart_operator().await;
    plane.settle().await;
    plane.replace_operator().await;
    plane.pass(std::time::Duration::from_secs(600)).await;
}

async fn a_failed_job_stays_failed_whatever_happens(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(1, 5)).await;
    plane.create(tf("a").workers(2).restart("Never")).await;
    let before = plane.finished("a").await;
    plane.settle().await;
    disturb(&plane, &["a-worker-0", "a-worker-1"]).await;
    let after = plane.world();
    assert_eq!(after.job("a"), plane.job("TFJob", "a").await.as_ref());
    assert_eq!(after.job("a").unwrap()["status"], before.job("a").unwrap()["status"]);
    assert!(plane.pods().await.is_empty());
    assert_eq!(plane.history().replica_runs().len(), 2);
}

async fn a_succeeded_job_never_starts_a_pod_again(crds: Crds) {
    let plane = plane(crds, leaders_end).await;
    plane.create(pytorch("a").master().workers(1)).await;
    plane.finished("a").await;
    plane.settle().await;
    let before = plane.world();
    disturb(&plane, &["a-master-0", "a-worker-0"]).await;
    assert_eq!(plane.job("PyTorchJob", "a").await.as_ref(), before.job("a"));
    assert!(plane.pods().await.is_empty());
    assert_eq!(plane.history().replica_runs().len(), 2);
}

async fn a_finished_worker_is_not_run_again(crds: Crds) {
    let plane = plane(crds, |pod| match pod.index {
        0 => PodScript::exits(0, 300),
        _ => PodScript::exits(0, 10),
    })
    .await;
    plane.create(pytorch("a").workers(2)).await;
    plane.until("worker 1 has succeeded", |w| w.count("a", "Worker", "succeeded") == 1).await;
    plane.settle().await;
    plane.delete_pod("a-worker-1").await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    assert_eq!(world.count("a", "Worker", "succeeded"), 2);
    assert_eq!(plane.history().count("a-worker-1"), 1, "it had done its part");
}

async fn a_short_life_shows_running(crds: Crds) {
    let plane = plane(crds, |_| PodScript::crashes(0)).await;
    plane.create(pytorch("a").master()).await;
    plane.create(tf("b").workers(1)).await;
    for job in ["a", "b"] {
        assert_eq!(plane.finished(job).await.shape(job), "Created=T Running=F Succeeded=T");
    }
}

async fn every_replica_is_created_once(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 20)).await;
    plane.create(tf("a").chief().ps(2).workers(5).role("Evaluator", 1)).await;
    plane.finished("a").await;
    plane.settle().await;
    let mut pods: Vec<String> = plane.history().replica_runs().into_iter().map(|run| run.pod.name).collect();
    assert_eq!(pods.len(), 9);
    pods.sort();
    pods.dedup();
    assert_eq!(pods.len(), 9);
    assert!(plane.history().overlaps().is_empty());
    assert_eq!(plane.operator_failure(), None);
}

async fn a_limit_of_zero_leaves_the_node_nothing_to_restart(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(1, 5)).await;
    plane.create(pytorch("a").workers(1).restart("OnFailure").policy("backoffLimit", 0)).await;
    plane.finished("a").await;
    plane.pass(Duration::from_secs(600)).await;
    assert_eq!(plane.history().count("a-worker-0"), 1);
    let pods = plane.pods().await;
    assert_eq!(pods[0]["spec"]["restartPolicy"], "Never");
    assert_eq!(pods[0]["status"]["phase"], "Failed", "its log can be read");
}

/// A node restarts a container at once the first time, so several can be restarted before anybody counts them.
async fn what_was_restarted_beyond_the_limit_is_stopped(crds: Crds) {
    let once = |_: &PodInfo| {
        let exit = |seconds: u64, code: i32| Exit { after: Duration::from_secs(seconds), code };
        PodScript { end: End::Exits(vec![exit(5, 1), exit(1_000_000, 0)]), ..PodScript::runs() }
    };
    let plane = plane(crds, once).await;
    let job = pytorch("a").workers(3).restart("OnFailure").policy("cleanPodPolicy", "None");
    plane.create(job.policy("backoffLimit", 1)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    plane.stop_operator().await;
    let restarted = |pod: &&&serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    plane.until("all were restarted", |w| w.pods("a").iter().filter(restarted).count() == 3).await;
    plane.start_operator().await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"), "{}", world.shape("a"));
    plane.until("nothing runs any more", |w| w.in_phase("a", "Failed") == 3).await;
}

async fn replicas_that_are_done_early_restart_nothing(crds: Crds) {
    let plane = plane(crds, |pod| match pod.slot().as_str() {
        "worker-0" => PodScript::exits(0, 5),
        _ => PodScript::exits(0, 5).starts_after(60),
    })
    .await;
    plane.create(jax("a").workers(2)).await;
    let world = plane.finished("a").await;
    assert_eq!(
        world.shapes("a"),
        [
            "",
            "Created=T",
            "Created=T Running=T",
            "Created=T Running=F",
            "Created=T Running=T",
            "Created=T Running=F Succeeded=T"
        ]
    );
    let reasons = plane.event_reasons("a").await;
    assert!(!reasons.iter().any(|reason| reason == "JAXJobRestarting"), "{reasons:?}");
}

async fn a_time_to_live_below_zero_is_none(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 60)).await;
    plane.create(pytorch("a").workers(1).policy("ttlSecondsAfterFinished", -1)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.until("it is over and gone", |w| w.job("a").is_none()).await;
    assert_eq!(plane.history().count("a-worker-0"), 1);
}

async fn an_exit_code_that_means_failure_fails_dynamic_workers_too(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(1, 5)).await;
    let job = tf("a").workers(2).ps(1).restart("ExitCode").set("/spec/enableDynamicWorker", true);
    plane.create(job).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"), "{}", world.shape("a"));
}

async fn an_mpi_job_may_have_a_name_that_no_service_may_have(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    for name in ["0.a", &"long-".repeat(11)] {
        let name = name.trim_end_matches('-');
        plane.create(mpi(name).launcher().workers(1)).await;
        plane.until("it runs", |w| w.is(name, "Running")).await;
    }
}
