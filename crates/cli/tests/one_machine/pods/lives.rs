//! How pods begin and end.

use std::fs;

use kube::api::{DeleteParams, LogParams, Patch, PatchParams};
use serde_json::json;

use super::*;
use crate::kit::{Up, eventually, processes_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_containers_sidecars_and_their_order() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "0"]).await;
    let client = up.client().await;
    let diary = home.path().join("diary");
    let note = |what: &str| format!("echo {what} >> {}", diary.display());
    let side = |name: &str| {
        let script = format!(
            "trap '{}; exit 0' TERM; {}; while :; do sleep 0.05; done",
            note(&format!("-{name}")),
            note(&format!("+{name}"))
        );
        // What comes after a sidecar waits for its startup probe.
        let seen = ["grep", "-q", &format!("+{name}"), &diary.to_string_lossy()].map(str::to_owned);
        let probe = json!({ "exec": { "command": seen }, "periodSeconds": 1, "failureThreshold": 60 });
        with(sh(name, &script), json!({ "restartPolicy": "Always", "startupProbe": probe }))
    };
    // The first attempt of an init container fails; it is repeated, because the pod may be.
    let flaky = format!("{}; [ $(grep -c init {}) -ge 2 ]", note("init"), diary.display());
    make(
        &client,
        pod(
            "order",
            json!({ "restartPolicy": "OnFailure",
            "initContainers": [sh("init", &flaky), side("s1"), side("s2"), sh("last", &note("last"))],
            "containers": [sh("a", &note("main")), sh("b", &note("main"))] }),
        ),
    )
    .await;
    let ended = until(&client, "order", "Succeeded").await;
    assert_eq!(
        lines(&diary),
        ["init", "init", "+s1", "+s2", "last", "main", "main", "-s2", "-s1"],
        "sidecars start before and end after, the last started first"
    );
    assert_eq!((container(&ended, "init").restart_count, exit(&ended, "a").0), (1, 0));

    // An init container that fails for good.
    make(
        &client,
        pod(
            "never",
            json!({ "restartPolicy": "Never",
            "initContainers": [side("s3"), sh("bad", "exit 7")], "containers": [sh("a", "true")] }),
        ),
    )
    .await;
    let failed = until(&client, "never", "Failed").await;
    assert_eq!(exit(&failed, "bad").0, 7);
    assert!(container(&failed, "a").container_id.is_none(), "it was never started");
    assert!(lines(&diary).contains(&"-s3".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_policies_of_pods() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "0"]).await;
    let client = up.client().await;
    let count = home.path().join("count");
    let script =
        format!("echo run >> {c}; echo run $(wc -l < {c}); [ $(wc -l < {c}) -ge 120 ]", c = count.display());
    make(&client, pod("often", json!({ "restartPolicy": "OnFailure", "containers": [sh("c", &script)] })))
        .await;
    make(&client, pod("always", json!({ "restartPolicy": "Always", "containers": [sh("c", "exit 0")] })))
        .await;
    make(&client, pod("never", json!({ "restartPolicy": "Never", "containers": [sh("a", "exit 3"), sh("b", "sleep 0.2; echo b")] })))
        .await;
    let failed = until(&client, "never", "Failed").await;
    assert_eq!(
        (exit(&failed, "a").0, exit(&failed, "b").0, log(&client, "never", "b").await),
        (3, 0, "b\n".into())
    );
    eventually("it is started again and again", async || {
        let pod = api(&client).get("always").await.unwrap();
        phase(&pod) == "Running" && container(&pod, "c").restart_count >= 3
    })
    .await;
    let ended = until(&client, "often", "Succeeded").await;
    assert_eq!((container(&ended, "c").restart_count, lines(&count).len()), (119, 120));
    assert_eq!(log(&client, "often", "c").await, "run 120\n");
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(api(&client).logs("often", &previous).await.unwrap(), "run 119\n");
    let uid = ended.metadata.uid.unwrap();
    let left = fs::read_dir(up.dir.join("pods").join(uid).join("containers/c")).unwrap().count();
    assert_eq!(left, 4, "two runs and their levels");
    let said = events(&client, "often").await;
    assert!(said.len() < 10, "{said:?}");
    api(&client).delete("always", &DeleteParams::default()).await.unwrap();
    gone(&client, "always").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_is_set_late_counts_at_once_and_leaves_the_grace_period() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // A deadline set on a pod that runs, and on one that waits for its next try: both at once, with grace.
    let saved = home.path().join("saved");
    let polite = format!("trap 'echo saved > {}; exit 0' TERM; {FOREVER}", saved.display());
    make(&client, pod("late", json!({ "restartPolicy": "Never", "containers": [sh("c", &polite)] }))).await;
    make(&client, pod("backing", json!({ "restartPolicy": "OnFailure", "containers": [sh("c", "exit 1")] })))
        .await;
    eventually("one runs, one waits", async || {
        let pod = api(&client).get("backing").await.unwrap();
        log(&client, "late", "c").await.contains("up") && waiting(&pod, "c").0 == "CrashLoopBackOff"
    })
    .await;
    for name in ["late", "backing"] {
        let patch = Patch::Merge(json!({ "spec": { "activeDeadlineSeconds": 1 } }));
        api(&client).patch(name, &PatchParams::default(), &patch).await.unwrap();
        let ended = until(&client, name, "Failed").await;
        assert_eq!(ended.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"), "{name}");
    }
    assert_eq!(lines(&saved), ["saved"], "it had its grace period");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_deleted_by_force_leaves_no_process_and_its_name_is_free() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // Deleted with force: the object is gone, and so is the process. The same name at once is another pod.
    let mark = format!("MARK=force-{}", std::process::id());
    let script = format!("export {mark}; trap '' TERM; sh -c '{FOREVER}'");
    for round in 0..3 {
        let made = make(
            &client,
            pod("again", json!({ "restartPolicy": "Never", "containers": [sh("c", &script)] })),
        )
        .await;
        if round < 2 {
            let running = async || processes_with(&mark).len() >= 2;
            if round == 0 {
                eventually("it runs", running).await;
            }
            let force = DeleteParams::default().grace_period(0);
            api(&client).delete("again", &force).await.unwrap();
        } else {
            eventually("only the last is left", async || {
                let dirs = fs::read_dir(up.dir.join("pods")).unwrap().flatten();
                let others = dirs.filter(|dir| dir.file_name().to_str() != made.metadata.uid.as_deref());
                phase(&api(&client).get("again").await.unwrap()) == "Running"
                    && others
                        .into_iter()
                        .all(|dir| trainyard_node::runtime::running_under(&dir.path()).is_empty())
            })
            .await;
        }
    }
    api(&client).delete("again", &DeleteParams::default().grace_period(1)).await.unwrap();
    gone(&client, "again").await;
    eventually("nothing is left", async || processes_with(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_with_a_finalizer_ends_and_stays() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // Finalizers: it ends, and stays until somebody lets it go.
    let mut held = pod("held", json!({ "restartPolicy": "Never", "containers": [sh("c", FOREVER)] }));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&client, held).await;
    until(&client, "held", "Running").await;
    api(&client).delete("held", &DeleteParams::default().grace_period(1)).await.unwrap();
    until(&client, "held", "Failed").await;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api(&client).patch("held", &PatchParams::default(), &free).await.unwrap();
    gone(&client, "held").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_whose_shim_was_killed_counts_as_failed() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // A shim that is killed: nobody knows the exit code, and the policy decides.
    for (name, policy) in [("lost-never", "Never"), ("lost-again", "OnFailure")] {
        make(&client, pod(name, json!({ "restartPolicy": policy, "containers": [sh("c", FOREVER)] }))).await;
        let found = until(&client, name, "Running").await;
        let dir = up.dir.join("pods").join(found.metadata.uid.unwrap()).join("containers/c/0");
        let pid = fs::read_to_string(dir.join("shim.lock")).unwrap().trim().to_owned();
        assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    }
    let lost = until(&client, "lost-never", "Failed").await;
    assert_eq!(exit(&lost, "c").0, 137);
    eventually("the other is started again", async || {
        let pod = api(&client).get("lost-again").await.unwrap();
        let status = container(&pod, "c");
        status.restart_count == 1 && status.state.as_ref().unwrap().running.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_was_over_when_the_node_came_back_goes_away() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut up = Up::start(&dir, &[]).await;
    let client = up.client().await;
    make(
        &client,
        pod(
            "stuck",
            json!({ "restartPolicy": "Never", "containers": [sh("c", "while :; do sleep 0.05; done")] }),
        ),
    )
    .await;
    until(&client, "stuck", "Running").await;
    up.kill();
    // What a node leaves that is killed after it has written a deleted pod's end and before it has removed it.
    let mut up = Up::start(&dir, &["--without", "operator,node"]).await;
    let client = up.client().await;
    api(&client).delete("stuck", &DeleteParams::default()).await.unwrap();
    let over = Patch::Merge(json!({ "status": { "phase": "Failed" } }));
    api(&client).patch_status("stuck", &PatchParams::default(), &over).await.unwrap();
    assert!(api(&client).get("stuck").await.unwrap().metadata.deletion_timestamp.is_some());
    up.terminate();
    let up = Up::start(&dir, &[]).await;
    gone(&up.client().await, "stuck").await;
    eventually("and so is its process", async || {
        trainyard_node::runtime::running_under(&dir.join("pods")).is_empty()
    })
    .await;
}
