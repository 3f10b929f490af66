//! Whom containers run as. All of it needs root: as anybody else everything runs as that user.

mod isolated;

use std::os::unix::fs::MetadataExt as _;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::kit::{Up, can_mount, eventually};
use crate::pods::{api, log, make, pod, sh, until, waiting, with};

/// Why a test that needs root and mounts cannot run here.
pub(crate) fn cannot() -> Option<String> {
    if !is_root() {
        return Some("only root can run programs as another user".to_owned());
    }
    can_mount().err()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// What a script writes that is run in container `c` of a pod.
async fn exec(pods: &Api<Pod>, pod: &str, script: &str) -> String {
    let params = AttachParams::default().container("c").stderr(false);
    let mut process = pods.exec(pod, ["sh", "-c", script], &params).await.unwrap();
    let mut found = String::new();
    process.stdout().unwrap().read_to_string(&mut found).await.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_starts_at_home_and_so_do_commands_and_probes() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // By its whole name as by a relative one, at home and in a volume; the output by its name too.
    let script = "id -u; id -g; touch here && ls $PWD/here $HOME/here; touch /ty-empty/x && echo wrote; \
        cat /proc/self/status | grep NoNewPrivs; echo named > /dev/stdout; echo ready > $HOME/ready; sleep 1000";
    let probe = json!({ "exec": { "command": ["sh", "-c", "id -u > $HOME/probed; test -e ready"] },
        "periodSeconds": 1, "failureThreshold": 100 });
    let main = with(
        sh("c", script),
        json!({ "readinessProbe": probe, "volumeMounts": [{ "name": "e", "mountPath": "/ty-empty" }],
            "securityContext": { "runAsUser": 12345, "runAsGroup": 12346, "runAsNonRoot": true,
                "allowPrivilegeEscalation": false } }),
    );
    let other = with(
        sh("d", "id -u; until touch also; do sleep 0.1; done; ls -n $HOME | wc -l; sleep 1000"),
        json!({ "securityContext": { "runAsUser": 23456 } }),
    );
    let volumes = json!([{ "name": "e", "emptyDir": {} }]);
    make(
        &client,
        pod("as", json!({ "restartPolicy": "Never", "containers": [main, other], "volumes": volumes })),
    )
    .await;
    eventually("it is ready", async || {
        let found = api(&client).get("as").await.unwrap();
        let statuses = found.status.and_then(|status| status.container_statuses).unwrap_or_default();
        assert!(
            statuses.iter().all(|c| c.state.as_ref().is_none_or(|s| s.terminated.is_none())),
            "{statuses:#?}"
        );
        statuses.len() == 2 && statuses.iter().all(|status| status.ready)
    })
    .await;
    let work = "/run/trainyard/work";
    let expected = [
        "12345",
        "12346",
        &format!("{work}/here"),
        &format!("{work}/here"),
        "wrote",
        "NoNewPrivs:\t1",
        "named",
    ];
    assert_eq!(log(&client, "as", "c").await.lines().collect::<Vec<_>>(), expected);
    assert!(log(&client, "as", "d").await.starts_with("23456\n"));
    let asked =
        exec(&api(&client), "as", "id -u; id -g; pwd; cat probed; grep NoNewPrivs /proc/self/status").await;
    assert_eq!(asked, format!("12345\n12346\n{work}\n12345\nNoNewPrivs:\t1\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_as_non_root_refuses_root() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let strict = |context| {
        pod(
            "strict",
            json!({ "restartPolicy": "Never", "securityContext": context, "containers": [sh("c", "id -u")] }),
        )
    };
    make(&client, strict(json!({ "runAsNonRoot": true }))).await;
    eventually("it is refused", async || {
        let (reason, message) = waiting(&api(&client).get("strict").await.unwrap(), "c");
        reason == "CreateContainerConfigError" && message.contains("runAsNonRoot and image will run as root")
    })
    .await;
    make(
        &client,
        pod(
            "other",
            json!({ "restartPolicy": "Never", "containers": [
        with(sh("c", "id -u"), json!({ "securityContext": { "runAsNonRoot": true, "runAsUser": 77 } }))] }),
        ),
    )
    .await;
    until(&client, "other", "Succeeded").await;
    assert_eq!(log(&client, "other", "c").await, "77\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_says_at_its_start_that_every_job_is_root() {
    if !is_root() {
        println!("SKIPPED: only root is told");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let told = || std::fs::read_to_string(home.path().join("up.err")).unwrap();
    {
        let _up = Up::start(&home.path().join("data"), &[]).await;
        eventually("it is told", async || told().contains("every job runs as root")).await;
        assert!(told().contains("data/pki") && told().contains("--isolate-namespaces"), "{}", told());
    }
    {
        let _up = Up::start(&home.path().join("alone"), &["--without", "node"]).await;
        assert_eq!(told(), "");
    }
}
