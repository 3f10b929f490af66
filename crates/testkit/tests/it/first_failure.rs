//! When one replica takes the others with it, the status names the one that was first.

use std::time::Duration;

use serde_json::json;
use trainyard_testkit::{Crds, End, Exit, PodInfo, PodScript, pytorch};

use crate::support::plane;

crate::under_both!(
    the_first_failure_of_a_cascade_is_named,
    a_replica_that_ran_out_of_memory_is_named,
    a_restart_names_what_it_was_for,
);

fn exits(code: i32, after: u64) -> PodScript {
    let exit = Exit { after: Duration::from_millis(after), code };
    PodScript { end: End::Exits(vec![exit]), init: Duration::ZERO, ..PodScript::runs() }
}

fn cascade(pod: &PodInfo) -> PodScript {
    match pod.slot().as_str() {
        "worker-1" => exits(7, 5000),
        "worker-0" => exits(1, 5900),
        _ => exits(1, 6800),
    }
}

async fn the_first_failure_of_a_cascade_is_named(crds: Crds) {
    let ours = matches!(crds, Crds::Ours);
    let plane = plane(crds, cascade).await;
    // Nobody looks until all of them are down.
    plane.create(pytorch("a").master().workers(2).restart("Never")).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    plane.stop_operator().await;
    plane.until("all are down", |w| w.in_phase("a", "Failed") == 3).await;
    plane.start_operator().await;
    let world = plane.finished("a").await;
    plane.settle().await;
    let events = plane.events("a").await;
    let told: Vec<&str> = events
        .iter()
        .filter(|event| event["reason"] == "FirstFailure")
        .map(|event| event["message"].as_str().unwrap())
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("a-worker-1 failed first on node "), "{told:?}");
    assert!(told[0].contains("application error, exit code 7"), "{told:?}");
    if ours {
        let failure = &world.job("a").unwrap()["status"]["firstFailure"];
        assert_eq!((&failure["pod"], &failure["exitCode"]), (&json!("a-worker-1"), &json!(7)), "{failure}");
        assert_eq!(failure["cause"], "application error");
        assert!(failure["node"].is_string() && failure["finished"].is_string(), "{failure}");
    }
    let before = plane.job("PyTorchJob", "a").await;
    plane.pass(Duration::from_secs(300)).await;
    assert_eq!(before, plane.job("PyTorchJob", "a").await, "what is pruned is not written again and again");
}

async fn a_replica_that_ran_out_of_memory_is_named(crds: Crds) {
    let plane = plane(crds, |pod| match pod.slot().as_str() {
        "worker-0" => PodScript { end: End::OutOfMemory(Duration::from_secs(5)), ..PodScript::runs() },
        _ => PodScript::runs(),
    })
    .await;
    plane.create(pytorch("a").master().workers(1).restart("Never")).await;
    plane.finished("a").await;
    plane.settle().await;
    let events = plane.events("a").await;
    let told = events.iter().find(|event| event["reason"] == "FirstFailure").unwrap();
    let message = told["message"].as_str().unwrap();
    assert!(
        message.contains("a-worker-0") && message.contains("out of memory, exit code 137 (OOMKilled)"),
        "{message}"
    );
}

async fn a_restart_names_what_it_was_for(crds: Crds) {
    let ours = matches!(crds, Crds::Ours);
    let plane = plane(crds, |pod| match (pod.role.as_str(), pod.earlier) {
        ("worker", 0) => exits(130, 2000),
        ("worker", _) => PodScript::runs(),
        _ => PodScript::exits(0, 120),
    })
    .await;
    plane.create(pytorch("a").master().workers(1).restart("ExitCode")).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Succeeded"));
    if ours {
        let failure = &world.job("a").unwrap()["status"]["firstFailure"];
        assert_eq!((&failure["pod"], &failure["exitCode"]), (&json!("a-worker-0"), &json!(130)), "{failure}");
    }
}
