//! Limits in time: `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.

use std::time::Duration;

use serde_json::json;
use trainyard_testkit::{Crds, PodScript, pytorch, tf};

use crate::support::{plane, seconds};

crate::under_both!(
    a_deadline_strikes_without_any_event,
    a_deadline_strikes_while_nobody_is_there,
    a_success_beats_a_deadline_that_passed_unseen,
    a_time_to_live_is_kept,
    a_time_to_live_of_zero,
    a_time_to_live_set_later,
);

const MESSAGE: &str = "Job a has failed because it was active longer than specified deadline";

async fn a_deadline_strikes_without_any_event(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(2).deadline(3000).clean("All")).await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Failed=T");
    assert_eq!(world.condition("a", "Failed").unwrap()["message"], MESSAGE);
    let status = &world.job("a").unwrap()["status"];
    assert_eq!(seconds(&status["startTime"], &status["completionTime"]), 3000);
    plane.until("all is gone", |w| w.pods("a").is_empty() && w.services("a").is_empty()).await;
}

async fn a_deadline_strikes_while_nobody_is_there(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().deadline(60)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.crash_operator().await;
    plane.pass(Duration::from_secs(600)).await;
    plane.start_operator().await;
    let world = plane.finished("a").await;
    assert_eq!(world.condition("a", "Failed").unwrap()["message"], MESSAGE);
}

async fn a_success_beats_a_deadline_that_passed_unseen(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 30)).await;
    plane.create(pytorch("a").master().deadline(60)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.crash_operator().await;
    plane.pass(Duration::from_secs(600)).await;
    plane.start_operator().await;
    assert_eq!(plane.finished("a").await.shape("a"), "Created=T Running=F Succeeded=T");
}

async fn a_time_to_live_is_kept(crds: Crds) {
    for code in [0, 1] {
        let plane = plane(crds.clone(), move |_| PodScript::exits(code, 10)).await;
        plane.create(pytorch("a").master().restart("Never").ttl(100)).await;
        plane.create(tf("b").workers(1).restart("Never")).await;
        plane.finished("a").await;
        let ended = plane.now();
        plane.until("it is deleted", |w| w.job("a").is_none()).await;
        let lived = plane.now().duration_since(ended).as_secs();
        assert!((99..=102).contains(&lived), "{lived}");
        plane.until("its children are gone", |w| w.pods("a").is_empty() && w.services("a").is_empty()).await;
        plane.pass(Duration::from_secs(3600)).await;
        assert!(plane.world().is_finished("b"), "without a time to live it stays");
        assert_eq!(plane.history().count("a-master-0"), 1);
    }
}

async fn a_time_to_live_of_zero(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 10)).await;
    plane.create(tf("a").workers(2).ttl(0)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    let started = plane.now();
    plane.until("all is gone", |w| w.job("a").is_none() && w.pods("a").is_empty()).await;
    let took = plane.now().duration_since(started).as_secs();
    assert!((8..=12).contains(&took), "{took}");
    assert_eq!(plane.world().shapes("a").last().unwrap(), "Created=T Running=F Succeeded=T");
}

async fn a_time_to_live_set_later(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 10)).await;
    plane.create(tf("a").workers(1)).await;
    plane.finished("a").await;
    plane.pass(Duration::from_secs(300)).await;
    plane.patch("TFJob", "a", json!({ "spec": { "runPolicy": { "ttlSecondsAfterFinished": 60 } } })).await;
    plane.settle().await;
    assert!(plane.job("TFJob", "a").await.is_none(), "its time was over already");
}
