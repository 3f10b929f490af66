//! Scenarios 18 to 26, 39 and 42: PyTorchJobs.

use std::time::Duration;

use serde_json::json;
use trainyard_testkit::{Crds, Job, PodScript, World, pytorch};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_18_master_and_workers,
    scenario_19_processes_per_node,
    scenario_20_the_master_decides,
    scenario_21_workers_only,
    scenario_22_elastic,
    scenario_23_elastic_suspended_and_scaled,
    scenario_24_created_suspended,
    scenario_25_suspended_and_resumed,
    scenario_26_managed_by,
    scenario_39_a_deleted_pod_comes_back,
    scenario_42_a_job_that_cannot_be_read,
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
    assert!(pods[0]["spec"].get("initContainers").is_none());
    for pod in &pods[1..] {
        assert_eq!(pod["spec"]["initContainers"][0]["name"], "init-pytorch");
    }
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

const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/a";

fn elastic() -> Job {
    let cpu = json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } });
    let policy = json!({
        "minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "rdzvBackend": "c10d",
        "metrics": [{ "type": "Resource", "resource": cpu }],
    });
    pytorch("a").workers(1).set("/spec/elasticPolicy", policy)
}

async fn scenario_22_elastic(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 60)).await;
    plane.create(elastic()).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    let pods = plane.pods().await;
    for (name, value) in [
        ("PET_RDZV_BACKEND", "c10d"),
        ("PET_NNODES", "1:3"),
        ("PET_RDZV_ENDPOINT", "a-worker-0:23456"),
        ("PET_MAX_RESTARTS", "3"),
    ] {
        assert_eq!(env(&pods[0], name), Some(value), "{name}");
    }
    let autoscaler = plane.rest().get(AUTOSCALER).await.unwrap();
    let spec = &autoscaler["spec"];
    assert_eq!((&spec["minReplicas"], &spec["maxReplicas"]), (&json!(1), &json!(3)));
    let target = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "a" });
    assert_eq!(spec["scaleTargetRef"], target);
    let world = plane.finished("a").await;
    assert!(world.is("a", "Succeeded"));
}

async fn scenario_23_elastic_suspended_and_scaled(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(elastic()).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.suspend("PyTorchJob", "a", true).await;
    plane.until("nothing is left", |w| w.pods("a").is_empty()).await;
    plane.settle().await;
    assert!(plane.rest().get(AUTOSCALER).await.is_err(), "nothing scales a suspended job");
    plane.suspend("PyTorchJob", "a", false).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.rest().get(AUTOSCALER).await.unwrap();
    let path = format!("{}/scale", plane.path("PyTorchJob", "a"));
    let mut scale = plane.rest().get(&path).await.unwrap();
    scale["spec"]["replicas"] = 2.into();
    plane.rest().put(&path, &scale).await.unwrap();
    plane.until("two run", |w| w.in_phase("a", "Running") == 2 && w.services("a").len() == 2).await;
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

async fn scenario_39_a_deleted_pod_comes_back(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(pytorch("a").master().workers(2)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3 && w.is("a", "Running")).await;
    let before = plane.pods().await;
    plane.delete_pod("a-worker-1").await;
    let uid = before[2]["metadata"]["uid"].clone();
    let back = |w: &World| w.pod("a-worker-1").is_some_and(|pod| pod["metadata"]["uid"] != uid);
    plane.until("it is back", |w| back(w) && w.in_phase("a", "Running") == 3).await;
    let world = plane.until("the job runs", |w| w.is("a", "Running")).await;
    assert!(world.shapes("a").iter().any(|shape| shape.contains("Restarting=T")), "{:?}", world.shapes("a"));
    let after = plane.pods().await;
    assert_eq!(after[2]["spec"]["containers"][0]["env"], before[2]["spec"]["containers"][0]["env"]);
}

/// Such a job is stored where definitions take anything.
async fn scenario_42_a_job_that_cannot_be_read(_: Crds) {
    let plane = plane(Crds::Open, |_| PodScript::exits(0, 5)).await;
    plane.create(pytorch("bad").master().template("Master", "/spec/containers", "none")).await;
    plane.create(pytorch("good").master().workers(1)).await;
    plane.finished("good").await;
    let world = plane.finished("bad").await;
    assert!(world.is("good", "Succeeded"));
    let failed = world.condition("bad", "Failed").unwrap();
    assert_eq!(failed["reason"], "PyTorchJobInvalidSpec");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("spec.pytorchReplicaSpecs.Master.template.spec.containers"), "{message}");
}
