//! What is left after the end.

use trainyard_testkit::plane::phases;
use trainyard_testkit::{Crds, PodInfo, PodScript, pytorch, tf};

use crate::support::{names, plane};

crate::under_both!(
    none_keeps_all,
    running_keeps_what_has_ended,
    all_keeps_nothing,
    clean_up_survives_a_crash
);

fn mixed(pod: &PodInfo) -> PodScript {
    match pod.slot().as_str() {
        "chief-0" | "master-0" => PodScript::exits(0, 30),
        "worker-0" => PodScript::exits(0, 10),
        _ => PodScript::runs(),
    }
}

async fn none_keeps_all(crds: Crds) {
    let plane = plane(crds, mixed).await;
    plane.create(tf("a").chief().workers(2)).await;
    plane.create(pytorch("b").master().workers(2).clean("None")).await;
    plane.finished("a").await;
    plane.finished("b").await;
    plane.settle().await;
    assert_eq!(
        phases(&plane.pods().await),
        [
            "a-chief-0 Succeeded",
            "a-worker-0 Succeeded",
            "a-worker-1 Running",
            "b-master-0 Succeeded",
            "b-worker-0 Succeeded",
            "b-worker-1 Running",
        ]
    );
    assert_eq!(plane.services().await.len(), 6);
}

async fn running_keeps_what_has_ended(crds: Crds) {
    let plane = plane(crds, mixed).await;
    plane.create(tf("a").chief().workers(2).ps(1).clean("Running")).await;
    plane.finished("a").await;
    plane.until("two are left", |w| w.pods("a").len() == 2 && w.services("a").len() == 2).await;
    plane.settle().await;
    assert_eq!(phases(&plane.pods().await), ["a-chief-0 Succeeded", "a-worker-0 Succeeded"]);
    assert_eq!(names(&plane.services().await), ["a-chief-0", "a-worker-0"]);
}

async fn all_keeps_nothing(crds: Crds) {
    let plane = plane(crds, mixed).await;
    plane.create(pytorch("a").master().workers(2).clean("All")).await;
    let world = plane.finished("a").await;
    plane.until("all is gone", |w| w.pods("a").is_empty() && w.services("a").is_empty()).await;
    let after = plane.world();
    assert_eq!(after.job("a").unwrap()["status"], world.job("a").unwrap()["status"], "the counts stay");
    assert_eq!(after.count("a", "Worker", "succeeded"), 2);
}

async fn clean_up_survives_a_crash(crds: Crds) {
    let plane = plane(crds, mixed).await;
    plane.create(pytorch("a").master().workers(2).clean("All")).await;
    plane.finished("a").await;
    plane.crash_operator().await;
    plane.pass(std::time::Duration::from_secs(60)).await;
    plane.start_operator().await;
    plane.until("all is gone", |w| w.pods("a").is_empty() && w.services("a").is_empty()).await;
}
