//! Scenarios 1 to 5, 11 and 13: what TFJobs are made into.

use serde_json::{Value, json};
use trainyard_testkit::{Crds, Plane, PodScript, tf};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_01_one_worker,
    scenario_02_workers_and_parameter_servers,
    scenario_03_a_cluster_domain,
    scenario_04_an_evaluator,
    scenario_05_lower_case_replica_types,
    scenario_11_labels_and_annotations_of_the_template,
    scenario_13_restart_policies,
);

/// Pods that never start: only what is created matters.
async fn idle(crds: Crds) -> Plane {
    plane(crds, |_| PodScript::never_starts()).await
}

async fn children(plane: &Plane, count: usize) -> (Vec<Value>, Vec<Value>) {
    plane
        .until("the children are there", |w| {
            w.pods("a").len() == count && w.services("a").len() == count && !w.shape("a").is_empty()
        })
        .await;
    (plane.pods().await, plane.services().await)
}

async fn scenario_01_one_worker(crds: Crds) {
    let plane = idle(crds).await;
    plane.create(tf("a").workers(1)).await;
    let (pods, services) = children(&plane, 1).await;
    let labels = &pods[0]["metadata"]["labels"];
    let expected = json!({
        "training.kubeflow.org/job-name": "a",
        "training.kubeflow.org/job-role": "master",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/replica-type": "worker",
    });
    assert_eq!(*labels, expected);
    assert_eq!(names(&pods), ["a-worker-0"]);
    assert_eq!(env(&pods[0], "TF_CONFIG"), None);
    let spec = &services[0]["spec"];
    assert_eq!(spec["clusterIP"], "None");
    assert_eq!((&spec["ports"][0]["name"], &spec["ports"][0]["port"]), (&json!("tfjob-port"), &json!(2222)));
    plane.settle().await;
    let world = plane.world();
    assert_eq!(world.shape("a"), "Created=T");
    assert!(world.job("a").unwrap()["status"]["startTime"].is_string());
}

async fn scenario_02_workers_and_parameter_servers(crds: Crds) {
    let plane = idle(crds).await;
    let job = plane.create(tf("a").workers(4).ps(2)).await;
    let (pods, services) = children(&plane, 6).await;
    let expected = ["a-ps-0", "a-ps-1", "a-worker-0", "a-worker-1", "a-worker-2", "a-worker-3"];
    assert_eq!(names(&pods), expected);
    assert_eq!(names(&services), expected);
    for child in pods.iter().chain(&services) {
        let owner = &child["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], job["metadata"]["uid"]);
        assert_eq!((&owner["kind"], &owner["controller"]), (&json!("TFJob"), &json!(true)));
    }
    let workers: Vec<String> = (0..4).map(|i| format!("\"a-worker-{i}.default.svc:2222\"")).collect();
    let config = format!(
        "{{\"cluster\":{{\"ps\":[\"a-ps-0.default.svc:2222\",\"a-ps-1.default.svc:2222\"],\"worker\":[{}]}},\
         \"task\":{{\"type\":\"worker\",\"index\":1}},\"environment\":\"cloud\"}}",
        workers.join(",")
    );
    assert_eq!(env(&pods[3], "TF_CONFIG"), Some(config.as_str()));
}

async fn scenario_03_a_cluster_domain(crds: Crds) {
    let builder = Plane::builder().crds(crds).scripts(|_| PodScript::never_starts());
    let plane = builder.options(|o| o.plan.cluster_domain = Some("x.y".into())).start().await;
    plane.create(tf("a").workers(2)).await;
    let (pods, _) = children(&plane, 2).await;
    assert!(env(&pods[0], "TF_CONFIG").unwrap().contains("\"a-worker-1.default.svc.x.y:2222\""));
}

async fn scenario_04_an_evaluator(crds: Crds) {
    let plane = idle(crds).await;
    plane.create(tf("a").workers(1).ps(1).role("Evaluator", 1)).await;
    let (pods, services) = children(&plane, 3).await;
    assert_eq!(names(&services), ["a-evaluator-0", "a-ps-0", "a-worker-0"]);
    let config: Value = serde_json::from_str(env(&pods[2], "TF_CONFIG").unwrap()).unwrap();
    assert_eq!(config["cluster"]["evaluator"], json!(["a-evaluator-0.default.svc:2222"]));
}

async fn scenario_05_lower_case_replica_types(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let job = plane.create(tf("a").role("worker", 2).role("ps", 1)).await;
    plane
        .until("all run", |w| w.in_phase("a", "Running") == 3 && w.count("a", "Worker", "active") == 2)
        .await;
    assert_eq!(names(&plane.pods().await), ["a-ps-0", "a-worker-0", "a-worker-1"]);
    let stored = plane.job("TFJob", "a").await.unwrap();
    assert_eq!(stored["spec"], job["spec"], "the spec is the user's");
    let statuses: Vec<&String> = stored["status"]["replicaStatuses"].as_object().unwrap().keys().collect();
    assert_eq!(statuses, ["PS", "Worker"]);
}

async fn scenario_11_labels_and_annotations_of_the_template(crds: Crds) {
    let plane = idle(crds).await;
    let job = tf("a").workers(1);
    let job = job.template("Worker", "/metadata/labels/label1", "1");
    plane.create(job.template("Worker", "/metadata/annotations/annotation1", "1")).await;
    let (pods, _) = children(&plane, 1).await;
    assert_eq!(pods[0]["metadata"]["labels"]["label1"], "1");
    assert_eq!(pods[0]["metadata"]["annotations"]["annotation1"], "1");
}

async fn scenario_13_restart_policies(crds: Crds) {
    for (policy, expected) in
        [("Always", "Always"), ("OnFailure", "OnFailure"), ("Never", "Never"), ("ExitCode", "Never")]
    {
        let plane = idle(crds.clone()).await;
        let job = tf("a").workers(1).restart(policy);
        plane.create(job.template("Worker", "/spec/restartPolicy", "Always")).await;
        let (pods, _) = children(&plane, 1).await;
        assert_eq!(pods[0]["spec"]["restartPolicy"], expected);
        plane.settle().await;
        let reasons = plane.event_reasons("a").await;
        assert!(reasons.iter().any(|r| r == "SetPodTemplateRestartPolicy"), "{reasons:?}");
    }
}
