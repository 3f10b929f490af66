//! Scenarios 29 to 31, and 24 to 26 for these kinds: XGBoostJobs, PaddleJobs and JAXJobs.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_testkit::{Crds, Job, PodScript, jax, paddle, xgboost};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_24_created_suspended,
    scenario_25_suspended_and_resumed,
    scenario_26_managed_by,
    scenario_29_xgboost,
    scenario_30_paddle_with_servers,
    scenario_30_paddle_collective,
    scenario_31_jax,
);

/// One of each, two replicas.
fn each() -> [Job; 3] {
    [xgboost("x").master().workers(1), paddle("p").workers(2), jax("j").workers(2)]
}

fn name(job: &Job) -> String {
    job.clone().build()["metadata"]["name"].as_str().unwrap().to_owned()
}

fn has_role(pod: &Value) -> bool {
    pod["metadata"]["labels"].get("training.kubeflow.org/job-role").is_some()
}

async fn scenario_24_created_suspended(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    for job in each() {
        plane.create(job.suspended()).await;
    }
    plane.pass(Duration::from_secs(3)).await;
    assert!(plane.pods().await.is_empty() && plane.services().await.is_empty());
    for job in each() {
        let (world, name) = (plane.world(), name(&job));
        assert_eq!(world.shape(&name), "Created=T Suspended=T");
        assert!(world.job(&name).unwrap()["status"].get("startTime").is_none());
    }
}

async fn scenario_25_suspended_and_resumed(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    for job in each() {
        let (kind, name) = (job.kind(), name(&job));
        plane.create(job).await;
        plane.until("it runs", |w| w.is(&name, "Running") && w.in_phase(&name, "Running") == 2).await;
        plane.suspend(kind, &name, true).await;
        let gone = |w: &trainyard_testkit::World| w.pods(&name).is_empty() && w.services(&name).is_empty();
        let world = plane.until("nothing is left", gone).await;
        let running = world.condition(&name, "Running").unwrap();
        assert_eq!(
            (&running["status"], &running["reason"]),
            (&json!("False"), &json!(format!("{kind}Suspended")))
        );
        plane.suspend(kind, &name, false).await;
        let world = plane.until("it runs", |w| w.is(&name, "Running")).await;
        assert_eq!(world.shape(&name), "Created=T Suspended=F Running=T");
        assert_eq!(world.condition(&name, "Suspended").unwrap()["reason"], format!("{kind}Resumed"));
    }
}

async fn scenario_26_managed_by(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    for job in each() {
        plane.create(job.managed_by("kueue.x-k8s.io/multikueue").suspended()).await;
    }
    plane.settle().await;
    for job in each() {
        plane.suspend(job.kind(), &name(&job), false).await;
    }
    plane.pass(Duration::from_secs(60)).await;
    assert!(plane.pods().await.is_empty() && plane.services().await.is_empty());
    for job in each() {
        assert_eq!(plane.world().shape(&name(&job)), "", "{}", job.kind());
    }
}

async fn scenario_29_xgboost(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "master" => PodScript::exits(0, 30),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(xgboost("a").master().workers(2)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3 && w.services("a").len() == 3).await;
    let pods = plane.pods().await;
    assert_eq!(names(&pods), ["a-master-0", "a-worker-0", "a-worker-1"]);
    for (name, value) in [
        ("MASTER_PORT", "9999"),
        ("MASTER_ADDR", "a-master-0"),
        ("WORLD_SIZE", "3"),
        ("RANK", "2"),
        ("PYTHONUNBUFFERED", "1"),
        ("WORKER_PORT", "9999"),
        ("WORKER_ADDRS", "a-worker-0,a-worker-1"),
    ] {
        assert_eq!(env(&pods[2], name), Some(value), "{name}");
    }
    assert_eq!(pods.iter().map(has_role).collect::<Vec<_>>(), [true, false, false]);
    assert!(pods.iter().all(|pod| pod["spec"]["restartPolicy"] == "Never"));
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    let condition = world.condition("a", "Succeeded").unwrap();
    assert_eq!(condition["message"], "XGBoostJob a is successfully completed.");
    assert!(world.job("a").unwrap()["status"]["replicaStatuses"]["Master"].get("selector").is_none());
}

async fn scenario_30_paddle_with_servers(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "master" => PodScript::exits(0, 30),
        _ => PodScript::runs(),
    })
    .await;
    let port = json!([{ "name": "master", "containerPort": 8080 }]);
    let job = paddle("a").master().workers(2).template("Master", "/spec/containers/0/ports", port);
    plane.create(job).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    let pods = plane.pods().await;
    assert_eq!(env(&pods[0], "PADDLE_MASTER"), Some("$(POD_IP_DUMMY):8080"));
    assert_eq!(env(&pods[0], "PADDLE_SERVER_NUM"), Some("1"));
    assert_eq!(env(&pods[1], "PADDLE_MASTER"), Some("a-master-0:8080"));
    assert_eq!(env(&pods[1], "PADDLE_TRAINER_NUM"), Some("1"));
    assert_eq!(pods.iter().map(has_role).collect::<Vec<_>>(), [true, false, false]);
    let world = plane.finished("a").await;
    let condition = world.condition("a", "Succeeded").unwrap();
    assert_eq!(condition["message"], "PaddleJob a is successfully completed.");
}

async fn scenario_30_paddle_collective(crds: Crds) {
    let plane = plane(crds, |pod| PodScript::exits(0, 30 + 30 * u64::from(pod.index))).await;
    plane.create(paddle("a").workers(2)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 2).await;
    let pods = plane.pods().await;
    assert_eq!(env(&pods[1], "PADDLE_MASTER"), Some("a-worker-0:36543"));
    assert_eq!(env(&pods[1], "PADDLE_TRAINER_NUM"), None);
    assert!(!pods.iter().any(has_role), "a collective job has no master");
    let world = plane.finished("a").await;
    let status = &world.job("a").unwrap()["status"];
    assert_eq!(status["conditions"][2]["message"], "PaddleJob default/a successfully completed.");
    assert_eq!(status["conditions"][2]["reason"], "PaddleJobSucceeded");
    assert!(
        status["replicaStatuses"]["Worker"]["selector"].as_str().unwrap().contains("paddlejob-controller")
    );
}

async fn scenario_31_jax(crds: Crds) {
    let plane = plane(crds, |pod| PodScript::exits(0, 30 + 30 * u64::from(pod.index))).await;
    plane.create(jax("a").workers(2)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 2).await;
    for (i, pod) in plane.pods().await.iter().enumerate() {
        assert_eq!(env(pod, "COORDINATOR_ADDRESS"), Some("a-worker-0"));
        assert_eq!(env(pod, "COORDINATOR_PORT"), Some("6666"));
        assert_eq!(env(pod, "NUM_PROCESSES"), Some("2"));
        assert_eq!(env(pod, "PROCESS_ID"), Some(i.to_string().as_str()));
        assert_eq!(has_role(pod), i == 0);
    }
    let world = plane.until("one is done", |w| w.count("a", "Worker", "succeeded") == 1).await;
    assert!(!world.is("a", "Succeeded"));
    let world = plane.finished("a").await;
    let condition = world.condition("a", "Succeeded").unwrap();
    assert_eq!(condition["message"], "JAXJob default/a successfully completed.");
}
