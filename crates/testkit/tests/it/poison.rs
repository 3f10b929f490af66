//! One bad object stops nobody else, and harms nothing that runs.

use serde_json::{Value, json};
use trainyard_testkit::{Crds, Job, Plane, PodInfo, PodScript, jax, paddle, pytorch, tf, xgboost};

/// A number where Kubernetes wants text: the slip that is made most often, and that a typed client chokes on.
fn poisoned(job: Job) -> Job {
    job.template("Worker", "/spec/containers/0/env", json!([{ "name": "EPOCHS", "value": 10 }]))
}

const PATH: &str = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].value";

async fn plane(scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static) -> Plane {
    Plane::builder().crds(Crds::Open).scripts(scripts).start().await
}

#[tokio::test(start_paused = true)]
async fn a_bad_job_fails_alone_among_a_hundred_good_ones() {
    let plane = plane(|_| PodScript::exits(0, 60)).await;
    plane.create(poisoned(tf("bad").workers(2))).await;
    let names: Vec<String> = (0..100).map(|i| format!("good-{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        let good = match i % 5 {
            0 => tf(name).workers(2),
            1 => pytorch(name).master().workers(1),
            2 => xgboost(name).master().workers(1),
            3 => paddle(name).workers(2),
            _ => jax(name).workers(2),
        };
        plane.create(good).await;
    }
    let world = plane
        .until("all are done", |w| names.iter().all(|name| w.is(name, "Succeeded")) && w.is_finished("bad"))
        .await;
    let failed = world.condition("bad", "Failed").unwrap();
    assert_eq!(failed["reason"], "TFJobInvalidSpec");
    assert!(failed["message"].as_str().unwrap().contains(PATH), "{failed}");
    assert!(world.job("bad").unwrap()["status"]["completionTime"].is_string());
    assert!(world.pods("bad").is_empty() && world.services("bad").is_empty());
    assert_eq!(plane.history().replica_runs().len(), 200);
    assert_eq!(plane.operator_failure(), None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_operator_changes_nothing_about_it() {
    let plane = plane(|_| PodScript::runs()).await;
    plane.create(poisoned(tf("bad").workers(2))).await;
    plane.create(tf("good").workers(1)).await;
    plane.until("both are seen", |w| w.is_finished("bad") && w.is("good", "Running")).await;
    plane.settle().await;
    let before = [plane.job("TFJob", "bad").await.unwrap(), plane.job("TFJob", "good").await.unwrap()];
    let events = plane.events("bad").await.len();
    for _ in 0..3 {
        plane.restart_operator().await;
        plane.settle().await;
        plane.replace_operator().await;
        plane.pass(std::time::Duration::from_secs(600)).await;
    }
    let after = [plane.job("TFJob", "bad").await.unwrap(), plane.job("TFJob", "good").await.unwrap()];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    }
    assert_eq!(plane.events("bad").await.len(), events, "it is said once");
}

fn uids(pods: &[Value]) -> Vec<&Value> {
    pods.iter().map(|pod| &pod["metadata"]["uid"]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_bad_edit_touches_no_live_pod() {
    let plane = plane(|pod| match pod.index {
        0 => PodScript::exits(0, 7200),
        _ => PodScript::runs(),
    })
    .await;
    let good = tf("a").workers(3);
    plane.create(good.clone()).await;
    plane.until("all run", |w| w.count("a", "Worker", "active") == 3).await;
    plane.settle().await;
    let before = plane.pods().await;
    let spec = |job: Job| json!({ "spec": { "tfReplicaSpecs": { "Worker": job.build()["spec"]["tfReplicaSpecs"]["Worker"] } } });
    plane.patch("TFJob", "a", spec(poisoned(good.clone()))).await;
    let world = plane.until("it is said", |w| w.is("a", "InvalidSpec")).await;
    assert_eq!(world.shape("a"), "Created=T Running=T InvalidSpec=T");
    let condition = world.condition("a", "InvalidSpec").unwrap();
    assert_eq!(condition["reason"], "TFJobInvalidSpec");
    assert!(condition["message"].as_str().unwrap().contains(PATH), "{condition}");
    plane.restart_operator().await;
    plane.pass(std::time::Duration::from_secs(1800)).await;
    assert_eq!(uids(&plane.pods().await), uids(&before));
    assert!(!plane.world().is_finished("a"));
    plane.patch("TFJob", "a", spec(good)).await;
    plane.until("all is well again", |w| w.shape("a") == "Created=T Running=T").await;
    assert_eq!(uids(&plane.pods().await), uids(&before));
    plane.pass(std::time::Duration::from_secs(7200)).await;
    assert!(plane.world().is("a", "Succeeded"));
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_nonsense_is_survived() {
    let plane = plane(|_| PodScript::exits(0, 30)).await;
    let nonsense = [
        tf("no-spec").set("/spec", json!({})),
        tf("null-spec").set("/spec", json!(null)),
        tf("text").workers(1).set("/spec/tfReplicaSpecs", "all of them"),
        tf("policy").workers(1).set("/spec/runPolicy", json!({ "backoffLimit": "three" })),
        tf("negative").workers(1).set("/spec/tfReplicaSpecs/Worker/replicas", -1),
        tf("huge").workers(1).set("/spec/tfReplicaSpecs/Worker/replicas", 2_000_000_000),
        tf("containers").workers(1).template("Worker", "/spec/containers", json!({ "a": 1 })),
        pytorch("two-masters").role("Master", 2),
        pytorch("unknown").role("Boss", 1),
        xgboost("headless").workers(2),
        xgboost("specs").set("/spec/xgbReplicaSpecs", json!([])),
        paddle("bounds").workers(1).set("/spec/elasticPolicy", json!({ "minReplicas": "two" })),
        paddle("other").workers(1).template("Worker", "/spec/containers/0/name", "main"),
        jax("led").master().workers(1),
        jax("typed").workers(1).template("Worker", "/spec/containers/0/command", "python train.py"),
    ];
    let names: Vec<String> = nonsense
        .iter()
        .map(|job| job.clone().build()["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for job in nonsense {
        plane.create(job).await;
    }
    // No replicas are legal, as they always were: such a job waits for somebody to give it some.
    plane.create(tf("nobody").set("/spec/tfReplicaSpecs", json!({}))).await;
    plane.create(tf("good").workers(1)).await;
    plane.until("the good one is done", |w| w.is("good", "Succeeded")).await;
    plane.settle().await;
    let world = plane.world();
    for name in &names {
        let said = world.condition(name, "Failed").map(|c| c["reason"].as_str().unwrap().to_owned());
        assert!(said.is_some_and(|reason| reason.ends_with("InvalidSpec")), "{name}: {}", world.shape(name));
        assert!(world.pods(name).is_empty());
    }
    assert_eq!(world.shape("nobody"), "Created=T");
    assert_eq!(plane.operator_failure(), None);
}
