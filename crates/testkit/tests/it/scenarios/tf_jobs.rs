//! Scenarios 6 to 10, 12, 14 to 17 and 27: what becomes of TFJobs.

use serde_json::{Value, json};
use trainyard_testkit::plane::phases;
use trainyard_testkit::rest::code;
use trainyard_testkit::{Crds, PodInfo, PodScript, tf};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_06_running,
    scenario_07_worker_0_decides,
    scenario_08_all_workers_decide,
    scenario_09_the_chief_decides,
    scenario_10_clean_up,
    scenario_12_exit_codes,
    scenario_14_dynamic_workers,
    scenario_15_a_backoff_limit_in_place,
    scenario_16_a_deadline,
    scenario_17_a_time_to_live,
    scenario_27_the_queue_is_fixed,
);

async fn scenario_06_running(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(4).ps(2)).await;
    let world = plane
        .until("all run", |w| w.count("a", "Worker", "active") == 4 && w.count("a", "PS", "active") == 2)
        .await;
    assert_eq!(world.condition("a", "Running").unwrap()["reason"], "TFJobRunning");
    assert_eq!(world.shape("a"), "Created=T Running=T");
}

fn worker_0_ends(pod: &PodInfo) -> PodScript {
    if pod.slot() == "worker-0" { PodScript::exits(0, 60) } else { PodScript::runs() }
}

async fn scenario_07_worker_0_decides(crds: Crds) {
    let plane = plane(crds, worker_0_ends).await;
    plane.create(tf("a").workers(4).ps(2)).await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    assert!(world.job("a").unwrap()["status"]["completionTime"].is_string());
    assert_eq!((world.count("a", "Worker", "succeeded"), world.count("a", "PS", "succeeded")), (4, 2));
}

async fn scenario_08_all_workers_decide(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "worker" => PodScript::exits(0, 60 + 60 * u64::from(pod.index)),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(tf("a").workers(4).ps(2).set("/spec/successPolicy", "AllWorkers")).await;
    let world = plane.until("three are done", |w| w.count("a", "Worker", "succeeded") == 3).await;
    assert_eq!(world.shape("a"), "Created=T Running=T");
    assert_eq!(plane.finished("a").await.shape("a"), "Created=T Running=F Succeeded=T");
    assert!(plane.history().runs_of("a-worker-3")[0].ended.is_some());
}

async fn scenario_09_the_chief_decides(crds: Crds) {
    let plane = plane(crds, |pod| match (pod.job.as_str(), pod.role.as_str()) {
        ("good", "chief") => PodScript::exits(0, 60),
        ("bad", "ps") if pod.index == 1 => PodScript::exits(1, 60),
        _ => PodScript::runs(),
    })
    .await;
    for name in ["good", "bad"] {
        plane.create(tf(name).chief().workers(4).ps(2).restart("Never")).await;
    }
    assert!(plane.finished("good").await.is("good", "Succeeded"));
    let world = plane.finished("bad").await;
    assert!(world.is("bad", "Failed") && !world.is("bad", "Succeeded"));
    let message = &world.condition("bad", "Failed").unwrap()["message"];
    assert_eq!(message, "TFJob default/bad has failed because 1 PS replica(s) failed.");
}

async fn scenario_10_clean_up(crds: Crds) {
    let scripts = |pod: &PodInfo| match pod.role.as_str() {
        "ps" => PodScript::runs(),
        "worker" => PodScript::exits(0, 30),
        _ => PodScript::exits(0, 60),
    };
    let kept = ["a-chief-0 Succeeded", "a-worker-0 Succeeded", "a-worker-1 Succeeded"];
    for (policy, expected) in [(Some("Running"), &kept[..]), (Some("All"), &[]), (None, &[])] {
        let plane = plane(crds.clone(), scripts).await;
        let job = tf("a").chief().workers(2).ps(2);
        plane.create(policy.map_or(job.clone(), |policy| job.clone().clean(policy))).await;
        plane.finished("a").await;
        plane.settle().await;
        let pods = plane.pods().await;
        match policy {
            Some(_) => assert_eq!(phases(&pods), expected),
            None => assert_eq!(pods.len(), 5),
        }
        assert_eq!(names(&plane.services().await), names(&pods));
    }
}

async fn scenario_12_exit_codes(crds: Crds) {
    let plane = plane(crds, |pod| match (pod.job.as_str(), pod.earlier) {
        ("retried", 0) => PodScript::exits(130, 30),
        ("retried", _) => PodScript::runs(),
        _ => PodScript::exits(1, 30),
    })
    .await;
    plane.create(tf("retried").workers(1).restart("ExitCode")).await;
    plane.create(tf("permanent").workers(1).restart("ExitCode")).await;
    let first = plane.until("it runs", |w| w.is("retried", "Running")).await;
    assert_eq!(first.pod("retried-worker-0").unwrap()["spec"]["restartPolicy"], "Never");
    let world = plane.until("it restarts", |w| w.is("retried", "Restarting")).await;
    assert_eq!(world.shape("retried"), "Created=T Restarting=T");
    let again = plane.until("it runs again", |w| w.is("retried", "Running")).await;
    assert_eq!(again.shape("retried"), "Created=T Running=T");
    let uid = |w: &trainyard_testkit::World| w.pod("retried-worker-0").unwrap()["metadata"]["uid"].clone();
    assert_ne!(uid(&first), uid(&again));
    let world = plane.finished("permanent").await;
    let message = &world.condition("permanent", "Failed").unwrap()["message"];
    assert_eq!(message, "job \"permanent\" is failing because \"Worker\" replica(s) failed.");
    assert!(world.job("permanent").unwrap()["status"]["completionTime"].is_string());
}

async fn scenario_14_dynamic_workers(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(2).ps(1).set("/spec/enableDynamicWorker", true)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    let config: Value = serde_json::from_str(env(&plane.pods().await[2], "TF_CONFIG").unwrap()).unwrap();
    let sparse = json!({
        "cluster": { "worker": { "1": "a-worker-1.default.svc:2222" }, "ps": ["a-ps-0.default.svc:2222"] },
        "task": { "type": "worker", "index": 1 },
    });
    assert_eq!(config, sparse);
    for (replicas, expected) in
        [(3, &["a-ps-0", "a-worker-0", "a-worker-1", "a-worker-2"][..]), (1, &["a-ps-0", "a-worker-0"][..])]
    {
        let patch = json!({ "spec": { "tfReplicaSpecs": { "Worker": { "replicas": replicas } } } });
        plane.patch("TFJob", "a", patch).await;
        plane
            .until("scaled", |w| {
                w.in_phase("a", "Running") == expected.len() && w.pods("a").len() == expected.len()
            })
            .await;
        assert_eq!(names(&plane.pods().await), expected);
        assert_eq!(names(&plane.services().await), expected);
    }
    assert!(!plane.world().is("a", "Failed"));
}

/// Differs from the operator we replace on purpose: four restarts are allowed by a limit of four, the fifth is not.
async fn scenario_15_a_backoff_limit_in_place(crds: Crds) {
    let scripts = |fifth: bool| {
        move |pod: &PodInfo| match pod.index {
            0 if fifth => PodScript::exits_in_turn(&[1, 1]),
            _ => {
                let mut script = PodScript::exits(1, 20);
                if let trainyard_testkit::End::Exits(exits) = &mut script.end {
                    let forever = std::time::Duration::from_secs(1_000_000);
                    exits.push(trainyard_testkit::Exit { after: forever, code: 0 });
                }
                script
            }
        }
    };
    for (fifth, fails) in [(false, false), (true, true)] {
        let plane = plane(crds.clone(), scripts(fifth)).await;
        plane.create(tf("a").workers(4).restart("OnFailure").backoff_limit(4).clean("All")).await;
        if !fails {
            plane.pass(std::time::Duration::from_secs(600)).await;
            assert_eq!(plane.world().shape("a"), "Created=T Running=T");
            continue;
        }
        let world = plane.finished("a").await;
        let message = &world.condition("a", "Failed").unwrap()["message"];
        assert_eq!(message, "Job a has failed because it has reached the specified backoff limit");
        plane.until("all is gone", |w| w.pods("a").is_empty()).await;
    }
}

async fn scenario_16_a_deadline(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(2).deadline(2)).await;
    let created = plane.now();
    let world = plane.finished("a").await;
    let message = &world.condition("a", "Failed").unwrap()["message"];
    assert_eq!(message, "Job a has failed because it was active longer than specified deadline");
    assert!(plane.now().duration_since(created).as_secs() <= 3);
}

async fn scenario_17_a_time_to_live(crds: Crds) {
    for code in [0, 1] {
        let plane = plane(crds.clone(), move |_| PodScript::exits(code, 5)).await;
        plane.create(tf("three").workers(1).ttl(3)).await;
        plane.create(tf("zero").workers(1).ttl(0)).await;
        plane.create(tf("never").workers(1)).await;
        plane.finished("three").await;
        let ended = plane.now();
        plane.until("it is gone", |w| w.job("zero").is_none()).await;
        assert!(plane.now().duration_since(ended).as_secs() <= 1);
        plane.until("it is gone", |w| w.job("three").is_none()).await;
        assert!((2..=4).contains(&plane.now().duration_since(ended).as_secs()));
        plane.pass(std::time::Duration::from_secs(600)).await;
        assert!(plane.world().job("never").is_some());
    }
}

async fn scenario_27_the_queue_is_fixed(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(tf("a").workers(1).policy("schedulingPolicy", json!({ "queue": "one" }))).await;
    let patch = json!({ "spec": { "runPolicy": { "schedulingPolicy": { "queue": "two" } } } });
    let error = plane.rest().merge(&plane.path("TFJob", "a"), &patch).await.unwrap_err();
    assert_eq!(code(&error), 422);
    assert!(error.to_string().contains("spec.runPolicy.schedulingPolicy.queue is immutable"), "{error}");
}
