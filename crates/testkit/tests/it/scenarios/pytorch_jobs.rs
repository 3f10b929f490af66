//! Scenarios 18 to 21 and 24 to 26: PyTorchJobs.

use std::time::Duration;

use serde_json::json;
use trainyard_testkit::{Crds, PodScript, pytorch};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_18_master_and_workers,
    scenario_19_processes_per_node,
    scenario_20_the_master_decides,
    scenario_21_workers_only,
    scenario_24_created_suspended,
    scenario_25_suspended_and_resumed,
    scenario_26_managed_by,
);

async fn scenario_18_master_and_workers(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let port = json!([{ "name": "pytorchjob-port", "containerPort": 8080 }]);
    let job = pytorch("a").master().workers(2);
    let job = job.template("Master", "/spec/containers/0/ports", port.clone());
    plane.create(job.template("Worker", "/spec/containers/0/ports", port)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3 && w.services("a").len() == 3).await;
    let pods = plane.pods().await;
    for (name, value) in [
        ("MASTER_PORT", "8080"),
        ("MASTER_ADDR", "a-master-0"),
        ("WORLD_SIZE", "3"),
        ("RANK", "0"),
        ("PET_NODE_RANK", "0"),
        ("PET_NNODES", "3"),
        ("PET_NPROC_PER_NODE", "auto"),
        ("PYTHONUNBUFFERED", "1"),
    ] {
        assert_eq!(env(&pods[0], name), Some(value), "{name}");
    }
    assert_eq!(env(&pods[2], "RANK"), Some("2"));
    assert_eq!(env(&pods[2], "MASTER_ADDR"), Some("a-master-0"));
    for pod in &pods {
        assert_eq!(pod["spec"]["restartPolicy"], "OnFailure");
    }
    for service in plane.services().await {
        assert_eq!(service["spec"]["ports"][0]["port"], 8080);
    }
}

async fn scenario_19_processes_per_node(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(1).set("/spec/nprocPerNode", "4")).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 2).await;
    let pods = plane.pods().await;
    assert_eq!(env(&pods[1], "WORLD_SIZE"), Some("8"));
    assert_eq!(env(&pods[1], "PET_NPROC_PER_NODE"), Some("4"));
}

async fn scenario_20_the_master_decides(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "master" => PodScript::exits(0, 30),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(pytorch("a").master().workers(2)).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Succeeded"));
    assert_eq!(world.count("a", "Master", "succeeded"), 1);
    for (role, label) in [("Master", "master"), ("Worker", "worker")] {
        let expected = format!(
            "training.kubeflow.org/job-name=a,training.kubeflow.org/operator-name=pytorchjob-controller,\
             training.kubeflow.org/replica-type={label}"
        );
        assert_eq!(world.job("a").unwrap()["status"]["replicaStatuses"][role]["selector"], expected);
    }
}

async fn scenario_21_workers_only(crds: Crds) {
    let plane = plane(crds, |pod| PodScript::exits(0, 30 + 30 * u64::from(pod.index))).await;
    plane.create(pytorch("a").workers(3)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    let pods = plane.pods().await;
    assert_eq!(env(&pods[0], "MASTER_ADDR"), None);
    assert_eq!(pods[0]["metadata"]["labels"]["training.kubeflow.org/job-role"], "master");
    assert!(pods[1]["metadata"]["labels"].get("training.kubeflow.org/job-role").is_none());
    let world = plane.until("two are done", |w| w.count("a", "Worker", "succeeded") == 2).await;
    assert!(!world.is("a", "Succeeded"));
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    assert_eq!(
        world.condition("a", "Succeeded").unwrap()["message"],
        "PyTorchJob default/a successfully completed."
    );
}

async fn scenario_24_created_suspended(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(1).suspended()).await;
    plane.pass(Duration::from_secs(3)).await;
    assert!(plane.pods().await.is_empty() && plane.services().await.is_empty());
    let world = plane.world();
    assert_eq!(world.shape("a"), "Created=T Suspended=T");
    assert!(world.job("a").unwrap()["status"].get("startTime").is_none());
}

async fn scenario_25_suspended_and_resumed(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(1)).await;
    plane.until("it runs", |w| w.is("a", "Running") && w.in_phase("a", "Running") == 2).await;
    plane.suspend("PyTorchJob", "a", true).await;
    let world =
        plane.until("nothing is left", |w| w.pods("a").is_empty() && w.services("a").is_empty()).await;
    assert_eq!(world.condition("a", "Running").unwrap()["reason"], "PyTorchJobSuspended");
    plane.settle().await;
    assert_eq!(plane.world().count("a", "Master", "active"), 0);
    plane.suspend("PyTorchJob", "a", false).await;
    let world = plane.until("it runs", |w| w.is("a", "Running")).await;
    assert_eq!(world.shape("a"), "Created=T Suspended=F Running=T");
    assert_eq!(world.condition("a", "Suspended").unwrap()["reason"], "PyTorchJobResumed");
    assert_eq!(names(&plane.pods().await), ["a-master-0", "a-worker-0"]);
}

/// Without admission an unknown manager reaches the store: whoever that is, it is not us.
async fn scenario_26_managed_by(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("theirs").master().suspended().managed_by("kueue.x-k8s.io/multikueue")).await;
    plane.create(pytorch("ours").master().managed_by("kubeflow.org/training-operator")).await;
    plane.create(pytorch("whose").master().managed_by("example.com/other")).await;
    plane.until("ours runs", |w| w.is("ours", "Running")).await;
    plane.suspend("PyTorchJob", "theirs", false).await;
    plane.pass(Duration::from_secs(60)).await;
    let world = plane.world();
    for job in ["theirs", "whose"] {
        assert!(world.pods(job).is_empty() && world.services(job).is_empty(), "{job}");
        assert_eq!(world.shape(job), "");
    }
}
