//! More replicas, and fewer.

use serde_json::json;
use trainyard_testkit::{Crds, PodScript, pytorch, tf};

use crate::support::{names, plane};

crate::under_both!(
    pytorch_by_the_scale_subresource,
    tf_by_an_edit,
    scaled_down_and_up_again_at_once,
    scaled_while_nobody_is_there,
);

async fn pytorch_by_the_scale_subresource(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(2)).await;
    plane.until("all run", |w| w.count("a", "Worker", "active") == 2).await;
    let path = format!("{}/scale", plane.path("PyTorchJob", "a"));
    let scale = plane.rest().get(&path).await.unwrap();
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"]["replicas"], 2);
    let selector = "training.kubeflow.org/job-name=a,training.kubeflow.org/operator-name=pytorchjob-controller,\
                    training.kubeflow.org/replica-type=worker";
    assert_eq!(scale["status"]["selector"], selector);
    plane.rest().merge(&path, &json!({ "spec": { "replicas": 4 } })).await.unwrap();
    plane.until("four run", |w| w.count("a", "Worker", "active") == 4).await;
    let before = plane.pods().await;
    plane.rest().merge(&path, &json!({ "spec": { "replicas": 1 } })).await.unwrap();
    let world = plane
        .until("one is left", |w| {
            w.count("a", "Worker", "active") == 1 && w.pods("a").len() == 2 && w.services("a").len() == 2
        })
        .await;
    assert_eq!(world.shape("a"), "Created=T Running=T", "scaling is no failure");
    let after = plane.pods().await;
    assert_eq!(names(&after), ["a-master-0", "a-worker-0"]);
    assert_eq!(after[0]["metadata"]["uid"], before[0]["metadata"]["uid"], "those that stay are not touched");
}

async fn tf_by_an_edit(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(1).ps(1)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    for workers in [3, 2, 5, 1] {
        let patch = json!({ "spec": { "tfReplicaSpecs": { "Worker": { "replicas": workers } } } });
        plane.patch("TFJob", "a", patch).await;
        plane
            .until("as many run", |w| {
                w.count("a", "Worker", "active") == workers
                    && w.pods("a").len() as i64 == workers + 1
                    && w.services("a").len() as i64 == workers + 1
            })
            .await;
    }
    assert_eq!(plane.world().shape("a"), "Created=T Running=T");
    assert!(plane.history().overlaps().is_empty());
}

async fn scaled_down_and_up_again_at_once(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs().stops_after(20)).await;
    plane.create(pytorch("a").master().workers(3)).await;
    let all = |n: i64| move |w: &trainyard_testkit::World| w.count("a", "Worker", "active") == n;
    plane.until("all run", all(3)).await;
    let replicas = |n: u32| json!({ "spec": { "pytorchReplicaSpecs": { "Worker": { "replicas": n } } } });
    plane.patch("PyTorchJob", "a", replicas(1)).await;
    plane.settle().await;
    plane.patch("PyTorchJob", "a", replicas(3)).await;
    plane.settle().await;
    plane.until("all run again", |w| all(3)(w) && w.in_phase("a", "Running") == 4).await;
    assert_eq!(plane.history().count("a-worker-2"), 2, "the old pod had to end first");
    assert_eq!(plane.history().count("a-worker-0"), 1);
    assert!(plane.history().overlaps().is_empty());
    let shapes = plane.world().shapes("a").to_vec();
    assert!(!shapes.iter().any(|shape| shape.contains("Failed")), "{shapes:?}");
}

async fn scaled_while_nobody_is_there(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(4)).await;
    plane.until("all run", |w| w.count("a", "Worker", "active") == 4).await;
    plane.crash_operator().await;
    let patch = json!({ "spec": { "tfReplicaSpecs": { "Worker": { "replicas": 2 } } } });
    plane.patch("TFJob", "a", patch).await;
    plane.settle().await;
    plane.start_operator().await;
    plane.until("two are left", |w| w.pods("a").len() == 2 && w.services("a").len() == 2).await;
}
