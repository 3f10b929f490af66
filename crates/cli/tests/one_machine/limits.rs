//! Limits on the real clock with real processes.

use std::fs;

use serde_json::json;

use crate::kit::{Up, create, delete, each_replica, eventually, job, jobs, log, pods, processes_with, until};

/// Says its name in a file each time it starts, so that runs can be counted whatever became of their pods.
fn counting(diary: &std::path::Path, then: &str) -> String {
    format!("echo run >> {}; {then}", diary.display())
}

fn runs(diary: &std::path::Path) -> usize {
    fs::read_to_string(diary).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_restart_budget_holds_for_every_policy() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "1"]).await;
    let client = up.client().await;
    let policies = ["OnFailure", "ExitCode", "Always"];
    for policy in policies {
        let name = policy.to_lowercase();
        // 137 is what ExitCode restarts for.
        let script = counting(&home.path().join(&name), "exit 137");
        let mut job =
            each_replica(job(&name, 0, &script), |replica| replica["restartPolicy"] = json!(policy));
        job["spec"]["runPolicy"] = json!({ "backoffLimit": 2 });
        create(&client, &job).await;
    }
    for policy in policies {
        let name = policy.to_lowercase();
        until(&client, &name, &["Failed"]).await;
        assert_eq!(runs(&home.path().join(&name)), 3, "{policy}: two restarts are three runs");
    }
    // Finished is final: nothing of it starts again, whatever is deleted.
    for policy in policies {
        for pod in pods(&client, &policy.to_lowercase()).await {
            let api: kube::Api<k8s_openapi::api::core::v1::Pod> =
                kube::Api::namespaced(client.clone(), "default");
            let _ = api.delete(&pod.metadata.name.unwrap(), &Default::default()).await;
        }
    }
    create(&client, &job("later", 0, "true")).await;
    until(&client, "later", &["Succeeded"]).await;
    for policy in policies {
        assert_eq!(runs(&home.path().join(policy.to_lowercase())), 3, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_replicas_that_ignore_sigterm_and_fork() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let mark = format!("MARK=deadline-{}", std::process::id());
    // It ignores SIGTERM, has a child that does, and a grandchild in a session of its own.
    let script = format!(
        "trap '' TERM; export {mark}; (trap '' TERM; while :; do sleep 1; done) & setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & echo up; while :; do sleep 1; done"
    );
    let mut job = each_replica(job("stubborn", 1, &script), |replica| {
        replica["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    });
    job["spec"]["runPolicy"] = json!({ "activeDeadlineSeconds": 3, "cleanPodPolicy": "All" });
    create(&client, &job).await;
    eventually("its processes are there", async || processes_with(&mark).len() >= 6).await;
    let ended = until(&client, "stubborn", &["Failed"]).await;
    let conditions = ended.data["status"]["conditions"].to_string();
    assert!(conditions.contains("active longer than specified deadline"), "{conditions}");
    eventually("nothing is left of it", async || processes_with(&mark).is_empty()).await;
    eventually("its pods are gone", async || pods(&client, "stubborn").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_a_time_to_live_goes_away_and_takes_its_processes_along() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let mark = format!("MARK=ttl-{}", std::process::id());
    // The worker outlives the master, and would for ever.
    let script = format!("export {mark}; if [ \"$RANK\" = 0 ]; then exit 0; fi; while :; do sleep 1; done");
    let mut job = each_replica(job("brief", 1, &script), |replica| {
        replica["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    });
    job["spec"]["runPolicy"] = json!({ "ttlSecondsAfterFinished": 1, "cleanPodPolicy": "None" });
    create(&client, &job).await;
    eventually("the job is gone", async || jobs(&client).get_opt("brief").await.unwrap().is_none()).await;
    eventually("its processes are gone", async || processes_with(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_polite_replica_has_its_grace_period() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let saved = home.path().join("saved");
    let script = format!(
        "trap 'sleep 1; echo checkpoint > {}; exit 0' TERM; echo up; while :; do sleep 0.1; done",
        saved.display()
    );
    create(&client, &job("polite", 0, &script)).await;
    eventually("it is up", async || {
        until(&client, "polite", &["Running"]).await;
        log(&client, "polite-master-0").await.contains("up")
    })
    .await;
    delete(&client, "polite").await;
    eventually("its pod is gone", async || pods(&client, "polite").await.is_empty()).await;
    assert_eq!(fs::read_to_string(saved).unwrap(), "checkpoint\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_small_jobs_all_succeed() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let begun = std::time::Instant::now();
    for number in 0..200 {
        // Without a master all workers decide: no replica is left out because the job has ended before it started.
        let mut job = job(&format!("small-{number}"), 2, "true");
        job["spec"]["pytorchReplicaSpecs"].as_object_mut().unwrap().remove("Master");
        create(&client, &job).await;
    }
    for number in 0..200 {
        until(&client, &format!("small-{number}"), &["Succeeded"]).await;
    }
    println!("200 jobs of 2 replicas: {:.1} s", begun.elapsed().as_secs_f64());
    // Each replica was one process, and only one.
    let all: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::all(client.clone());
    eventually("all replicas succeeded", async || {
        let pods = all.list(&Default::default()).await.unwrap();
        assert_eq!(pods.items.len(), 400);
        pods.iter().all(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Succeeded"))
    })
    .await;
    let restarts = |pod: &k8s_openapi::api::core::v1::Pod| {
        let statuses = pod.status.as_ref().unwrap().container_statuses.clone().unwrap();
        statuses.iter().map(|status| status.restart_count).sum::<i32>()
    };
    assert_eq!(all.list(&Default::default()).await.unwrap().iter().map(restarts).sum::<i32>(), 0);
}
