//! Whole lives of jobs.

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};
use trainyard_api::labels::OPERATOR_NAME;

use crate::plane::{Plane, get, pytorch, send};

#[tokio::test(start_paused = true)]
async fn a_job_runs_and_succeeds_and_is_cleaned_up() {
    let plane = Plane::start(|_| {}).await;
    plane.create(&pytorch("j", 2)).await;
    plane.settle().await;
    let names = ["j-master-0", "j-worker-0", "j-worker-1"];
    assert_eq!(plane.names("pods").await, names);
    assert_eq!(plane.names("services").await, names);
    assert_eq!(plane.conditions("j").await, "Created=T");
    for name in names {
        plane.set_phase(name, json!({ "phase": "Running" })).await;
    }
    plane.settle().await;
    assert_eq!(plane.conditions("j").await, "Created=T Running=T");
    let before = plane.health.stats();
    plane.set_phase("j-master-0", json!({ "phase": "Succeeded" })).await;
    plane.settle().await;
    assert_eq!(plane.conditions("j").await, "Created=T Running=F Succeeded=T");
    plane.settle().await;
    assert!(plane.names("services").await.is_empty());
    let events = plane.events().await;
    assert!(
        events.contains(&"SuccessfulCreatePod Created pods: j-master-0, j-worker-0, j-worker-1".to_owned()),
        "{events:#?}"
    );
    assert!(
        events.iter().any(|event| event.starts_with("SuccessfulDeletePod Deleted pods: ")),
        "{events:#?}"
    );
    let after = plane.health.stats();
    assert_eq!(after.writes - before.writes, 1 + 3 + 3, "one status, three pods, three services: {after:#?}");
    assert_eq!((after.reconcile_errors, after.stale_plans, after.undecodable), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_lost_its_labels_gets_them_back() {
    let plane = Plane::start(|_| {}).await;
    plane.create(&pytorch("j", 1)).await;
    plane.settle().await;
    let pod = "/api/v1/namespaces/default/pods/j-worker-0";
    let uid = get(&plane.client, pod).await.unwrap()["metadata"]["uid"].clone();
    let strip = json!({ "metadata": { "labels": { OPERATOR_NAME: null } } });
    send(&plane.client, Method::PATCH, pod, &strip).await.unwrap();
    plane.settle().await;
    let after = get(&plane.client, pod).await.unwrap();
    assert_eq!(after["metadata"]["labels"][OPERATOR_NAME], "pytorchjob-controller");
    assert_eq!(after["metadata"]["uid"], uid, "the same pod");
    let created = plane.events().await.into_iter().filter(|event| event.starts_with("SuccessfulCreatePod"));
    assert_eq!(created.count(), 1, "nothing was created again");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_reported_and_used_once_it_is_free() {
    let plane = Plane::start(|_| {}).await;
    let pods = "/api/v1/namespaces/default/pods";
    let foreign = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "j-worker-0" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    send(&plane.client, Method::POST, pods, &foreign).await.unwrap();
    plane.create(&pytorch("j", 1)).await;
    sleep(Duration::from_secs(60)).await;
    let taken =
        "FailedCreatePod Error creating: pods \"j-worker-0\" already exists and is controlled by nobody";
    let events = plane.events().await;
    assert_eq!(events.iter().filter(|event| *event == taken).count(), 1, "said once: {events:#?}");
    assert!(plane.health.stats().writes < 30, "and not tried in a tight loop: {:?}", plane.health.stats());
    let now = json!({ "gracePeriodSeconds": 0 });
    send(&plane.client, Method::DELETE, &format!("{pods}/j-worker-0"), &now).await.unwrap();
    sleep(Duration::from_secs(120)).await;
    let pod = get(&plane.client, &format!("{pods}/j-worker-0")).await.unwrap();
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "j");
}

#[tokio::test(start_paused = true)]
async fn suspend_resume_time_to_live() {
    let plane = Plane::start(|_| {}).await;
    plane.create(&pytorch("j", 1)).await;
    plane.settle().await;
    plane.patch_job("j", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(plane.conditions("j").await, "Created=T Suspended=T");
    assert!(plane.names("services").await.is_empty());
    assert!(plane.names("pods").await.is_empty());
    let resume = json!({ "spec": { "runPolicy": { "suspend": false, "ttlSecondsAfterFinished": 86400 } } });
    plane.patch_job("j", resume).await;
    plane.settle().await;
    assert_eq!(plane.names("pods").await, ["j-master-0", "j-worker-0"]);
    plane.set_phase("j-master-0", json!({ "phase": "Succeeded" })).await;
    plane.settle().await;
    assert!(plane.conditions("j").await.ends_with("Succeeded=T"), "{}", plane.conditions("j").await);
    sleep(Duration::from_secs(86_390)).await;
    assert!(plane.job("j").await.is_object());
    sleep(Duration::from_secs(15)).await;
    assert!(plane.job("j").await.is_null(), "deleted in time");
    assert_eq!(plane.health.stats().reconcile_errors, 0);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_job_fails_and_says_why_and_others_run() {
    let plane = Plane::start(|_| {}).await;
    let mut bad = pytorch("bad", 1);
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] =
        "other".into();
    plane.create(&bad).await;
    plane.create(&pytorch("good", 1)).await;
    plane.settle().await;
    assert_eq!(plane.conditions("bad").await, "Failed=T");
    assert_eq!(plane.names("pods").await, ["good-master-0", "good-worker-0"]);
    let events = plane.events().await;
    assert!(events.iter().any(|event| event.starts_with("PyTorchJobInvalidSpec ")), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_changes_nothing() {
    let plane = Plane::start(|_| {}).await;
    plane.create(&pytorch("j", 2)).await;
    plane.settle().await;
    plane.set_phase("j-master-0", json!({ "phase": "Running" })).await;
    plane.settle().await;
    plane.shutdown.cancel();
    plane.settle().await;
    let before = plane.job("j").await;
    let second = plane.again(|_| {}).await;
    plane.settle().await;
    assert_eq!(second.stats().writes, 0, "{:?}", second.stats());
    assert_eq!(plane.job("j").await, before);
}

#[tokio::test(start_paused = true)]
async fn jobs_on_one_machine_get_ports_of_their_own() {
    let plane = Plane::start(|options| {
        options.plan.addressing = trainyard_operator::core::Addressing::HostPorts;
        options.ports = Some((20_000, 20_031));
    })
    .await;
    for name in ["a", "b", "c", "d", "e"] {
        plane.create(&pytorch(name, 1)).await;
    }
    plane.settle().await;
    let mut bases = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        let job = plane.job(name).await;
        let record = job["metadata"]["annotations"]["trainyard.dev/record"].as_str().unwrap_or("{}");
        let record: Value = serde_json::from_str(record).unwrap();
        bases.extend(record["ports"]["base"].as_u64());
    }
    bases.sort_unstable();
    assert_eq!(bases, [20_000, 20_008, 20_016, 20_024], "four blocks, four jobs; the fifth waits");
    assert_eq!(plane.names("pods").await.len(), 8);
    for name in ["a", "b", "c", "d"] {
        let master = format!("{name}-master-0");
        if plane.names("pods").await.contains(&master) {
            plane.set_phase(&master, json!({ "phase": "Succeeded" })).await;
            break;
        }
    }
    sleep(Duration::from_secs(60)).await;
    let pods = plane.names("pods").await;
    assert!(pods.contains(&"e-master-0".to_owned()), "it got the block of the one that ended: {pods:?}");
}

/// The ports that a job's record holds.
async fn base(plane: &Plane, name: &str) -> Option<u64> {
    let job = plane.job(name).await;
    let record = job["metadata"]["annotations"]["trainyard.dev/record"].as_str().unwrap_or("{}");
    serde_json::from_str::<Value>(record).unwrap()["ports"]["base"].as_u64()
}

#[tokio::test(start_paused = true)]
async fn jobs_on_host_networks_get_ports_of_their_own_if_they_ask() {
    let plane = Plane::start(|options| options.ports = Some((20_000, 20_015))).await;
    let job = |name: &str, asks: bool, shares: bool| {
        let mut job = pytorch(name, 1);
        job["metadata"]["annotations"] = json!({ "trainyard.dev/host-ports": asks.to_string() });
        for role in ["Master", "Worker"] {
            job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["hostNetwork"] = json!(shares);
        }
        job
    };
    for (name, asks, shares) in [("a", true, true), ("quiet", false, true), ("inside", true, false)] {
        plane.create(&job(name, asks, shares)).await;
    }
    plane.settle().await;
    assert_eq!((base(&plane, "quiet").await, base(&plane, "inside").await), (None, None));
    let first = base(&plane, "a").await.unwrap();
    plane.shutdown.cancel();
    plane.settle().await;
    // The next operator knows what is taken from the jobs alone.
    for name in ["b", "c"] {
        plane.create(&job(name, true, true)).await;
    }
    plane.again(|options| options.ports = Some((20_000, 20_015))).await;
    plane.settle().await;
    let others: Vec<u64> = [base(&plane, "b").await, base(&plane, "c").await].into_iter().flatten().collect();
    assert_eq!(others, [40_008 - first], "the block that is left, for one of them");
    assert_eq!(base(&plane, "a").await, Some(first));
    let pods = plane.names("pods").await;
    assert_eq!(pods.len(), 8, "{pods:?}");
    let waits = if base(&plane, "b").await.is_some() { "c" } else { "b" };
    sleep(Duration::from_secs(10)).await;
    let conditions = plane.job(waits).await["status"]["conditions"].to_string();
    assert!(conditions.contains("no 8 ports in a row are free from 20000 to 20015"), "{conditions}");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_jobs_is_counted_once() {
    let plane = Plane::start(|_| {}).await;
    for name in ["good", "bad", "retried"] {
        let mut job = pytorch(name, 1);
        if name != "good" {
            let policy = if name == "bad" { "Never" } else { "ExitCode" };
            job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = json!(policy);
        }
        plane.create(&job).await;
    }
    plane.settle().await;
    let ended = |code: i64| {
        let state = json!({ "terminated": { "exitCode": code } });
        json!({ "phase": "Failed", "containerStatuses": [{
            "name": "pytorch", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state }] })
    };
    plane.set_phase("good-master-0", json!({ "phase": "Succeeded" })).await;
    plane.set_phase("bad-worker-0", ended(1)).await;
    plane.set_phase("retried-worker-0", ended(137)).await;
    plane.settle().await;
    // Something to look at again, which is no news.
    for name in ["good", "bad", "retried"] {
        plane.patch_job(name, json!({ "metadata": { "labels": { "a": "b" } } })).await;
    }
    plane.settle().await;
    let counts = |created, deleted| trainyard_operator::JobCounts {
        created,
        deleted,
        successful: 1,
        failed: 1,
        restarted: 1,
    };
    let all: Vec<_> = plane.health.jobs().into_iter().collect();
    assert_eq!(all, [(("default".into(), "pytorch"), counts(3, 0))]);
    let path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/good";
    crate::plane::send(&plane.client, http::Method::DELETE, path, &json!({})).await.unwrap();
    plane.settle().await;
    assert_eq!(plane.health.jobs().into_values().next(), Some(counts(3, 1)));
}
