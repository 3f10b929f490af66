//! To Suspended and back.

use std::time::Duration;

use trainyard_testkit::{Crds, PodScript, pytorch, tf};

use crate::support::plane;

crate::under_both!(
    suspended_from_the_start,
    suspended_while_running_and_resumed,
    a_resumed_job_starts_anew_and_ends,
    a_suspension_lasts_over_a_restart_of_the_operator,
    the_deadline_counts_from_the_resume,
);

async fn suspended_from_the_start(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 10)).await;
    plane.create(pytorch("a").master().workers(2).suspended()).await;
    plane.create(tf("b").workers(2).suspended()).await;
    for job in ["a", "b"] {
        plane.until("it is suspended", |w| w.shape(job) == "Created=T Suspended=T").await;
    }
    plane.pass(Duration::from_secs(30)).await;
    assert!(plane.pods().await.is_empty() && plane.services().await.is_empty());
    assert!(plane.world().job("a").unwrap().pointer("/status/startTime").is_none());
    plane.suspend("PyTorchJob", "a", false).await;
    plane.suspend("TFJob", "b", false).await;
    for job in ["a", "b"] {
        let world = plane.finished(job).await;
        assert_eq!(
            world.shapes(job),
            [
                "",
                "Created=T Suspended=T",
                "Created=T Suspended=F",
                "Created=T Suspended=F Running=T",
                "Created=T Suspended=F Running=F Succeeded=T",
            ]
        );
    }
}

async fn suspended_while_running_and_resumed(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(2)).await;
    plane.create(tf("b").workers(2).ps(1)).await;
    for (kind, job) in [("PyTorchJob", "a"), ("TFJob", "b")] {
        let before = plane.until("it runs", |w| w.shape(job) == "Created=T Running=T").await;
        plane.settle().await;
        plane.suspend(kind, job, true).await;
        let world = plane
            .until("nothing is left", |w| {
                w.is(job, "Suspended") && w.pods(job).is_empty() && w.services(job).is_empty()
            })
            .await;
        assert_eq!(world.shape(job), "Created=T Running=F Suspended=T");
        let running = world.condition(job, "Running").unwrap();
        assert_eq!(running["reason"], format!("{kind}Suspended"));
        let start = |w: &trainyard_testkit::World| w.job(job).unwrap()["status"]["startTime"].clone();
        assert_eq!(start(&world), start(&before), "the start time stays");
        plane.settle().await;
        assert_eq!(plane.world().count(job, "Worker", "active"), 0);
        plane.pass(Duration::from_secs(60)).await;
        plane.suspend(kind, job, false).await;
        let world = plane.until("it runs", |w| w.is(job, "Running")).await;
        assert_eq!(world.shape(job), "Created=T Suspended=F Running=T");
        assert_eq!(world.condition(job, "Suspended").unwrap()["reason"], format!("{kind}Resumed"));
        assert_ne!(start(&world), start(&before), "the clock starts anew");
    }
    assert!(plane.history().overlaps().is_empty());
    assert!(plane.history().mixed_attempts().is_empty());
}

async fn a_resumed_job_starts_anew_and_ends(crds: Crds) {
    let plane = plane(crds, |pod| match (pod.slot().as_str(), pod.attempt) {
        ("worker-1", 0) => PodScript::exits(0, 5),
        (_, 0) => PodScript::runs(),
        _ => PodScript::exits(0, 10),
    })
    .await;
    plane.create(pytorch("a").workers(2)).await;
    plane.until("one worker is done", |w| w.count("a", "Worker", "succeeded") == 1).await;
    plane.suspend("PyTorchJob", "a", true).await;
    plane.until("nothing is left", |w| w.is("a", "Suspended") && w.pods("a").is_empty()).await;
    plane.suspend("PyTorchJob", "a", false).await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Suspended=F Running=F Succeeded=T");
    assert_eq!(plane.history().count("a-worker-1"), 2, "a resumed job runs every replica anew");
}

async fn a_suspension_lasts_over_a_restart_of_the_operator(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(2)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.crash_operator().await;
    plane.suspend("TFJob", "a", true).await;
    plane.pass(Duration::from_secs(30)).await;
    assert_eq!(plane.pods().await.len(), 2, "nobody is there to act");
    plane.start_operator().await;
    plane.until("it is suspended", |w| w.is("a", "Suspended") && w.pods("a").is_empty()).await;
    plane.restart_operator().await;
    plane.pass(Duration::from_secs(60)).await;
    assert!(plane.pods().await.is_empty());
}

async fn the_deadline_counts_from_the_resume(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().deadline(100)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.pass(Duration::from_secs(50)).await;
    plane.suspend("PyTorchJob", "a", true).await;
    plane.pass(Duration::from_secs(500)).await;
    assert_eq!(plane.world().shape("a"), "Created=T Running=F Suspended=T", "no deadline while suspended");
    plane.suspend("PyTorchJob", "a", false).await;
    let resumed = plane.now();
    plane.finished("a").await;
    let took = plane.now().duration_since(resumed).as_secs();
    assert!((99..=102).contains(&took), "{took}");
}
