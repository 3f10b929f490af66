//! `trainyard up` and its clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::kit::{Up, create, each_replica, eventually, job, log, pods, text, trainyard, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_the_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let mode = |path: &str| fs::metadata(up.dir.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("."), 0o700);
    for file in ["kubeconfig", "pki/token", "pki/ca.key", "pki/server.key", "objects.redb"] {
        assert_eq!(mode(file) & 0o077, 0, "{file}");
    }
    let kubeconfig = fs::read_to_string(up.dir.join("kubeconfig")).unwrap();
    assert!(kubeconfig.contains("https://127.0.0.1:"), "{kubeconfig}");
    // Without the token nothing but health; with a wrong one not even that, as on a real server.
    let file = kube::config::Kubeconfig::read_from(up.dir.join("kubeconfig")).unwrap();
    let get = |path: &str| http::Request::get(path).body(Vec::new()).unwrap();
    for token in [None, Some("wrong")] {
        let mut file = file.clone();
        file.auth_infos[0].auth_info.as_mut().unwrap().token = token.map(|token| token.to_owned().into());
        let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
        let stranger = kube::Client::try_from(config).unwrap();
        assert_eq!(stranger.request_text(get("/readyz")).await.is_ok(), token.is_none());
        let refused = stranger.request_text(get("/api/v1/secrets")).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_goes_from_apply_to_delete() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let file = up.dir.join("job.yaml");
    let job = job("tour", 1, "echo hello from $RANK; sleep 1; echo bye");
    fs::write(&file, job.to_string()).unwrap();
    let ok = |args: &[&str]| {
        let output = up.command(args);
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    assert!(ok(&["apply", "-f", "job.yaml"]).contains("created"));
    ok(&["wait", "tour", "--for=condition=Running", "--timeout", "3m"]);
    let followed = ok(&["logs", "tour", "-f", "--all-ranks"]);
    for line in ["[master-0] hello from 0", "[worker-0] hello from 1", "[master-0] bye", "[worker-0] bye"] {
        assert!(followed.lines().any(|found| found == line), "{line:?} is not in {followed}");
    }
    ok(&["wait", "tour", "--timeout", "3m"]);
    assert!(ok(&["list"]).contains("Succeeded"));
    assert!(ok(&["describe", "tour"]).contains("tour-worker-0"));
    ok(&["delete", "pytorchjob/tour"]);
    assert!(!ok(&["list"]).contains("tour"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspend_resume_and_scale_move_real_processes() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    create(&client, &job("elastic", 1, "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")).await;
    until(&client, "elastic", &["Running"]).await;
    let ok = |args: &[&str]| {
        let output = up.command(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    };
    ok(&["scale", "elastic", "--replicas", "2"]);
    eventually("three pods", async || pods(&client, "elastic").await.len() == 3).await;
    ok(&["suspend", "elastic"]);
    until(&client, "elastic", &["Suspended"]).await;
    eventually("no pods", async || pods(&client, "elastic").await.is_empty()).await;
    ok(&["resume", "elastic"]);
    until(&client, "elastic", &["Running"]).await;
    eventually("top shows them", async || {
        text(&up.command(&["top", "elastic"]).stdout).contains("elastic-worker-1")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_up_takes_its_processes_back() {
    let home = tempfile::tempdir().unwrap();
    let mut up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let gate = home.path().join("gate");
    let script =
        format!("echo before; while [ ! -e {} ]; do sleep 0.1; done; echo after; exit 5", gate.display());
    create(&client, &job("patient", 0, &script)).await;
    eventually("it runs", async || {
        until(&client, "patient", &["Running"]).await;
        log(&client, "patient-master-0").await.contains("before")
    })
    .await;
    up.terminate();
    // It ends while nobody looks; what it did is there all the same.
    fs::write(gate, "").unwrap();
    up.again().await;
    let client = up.client().await;
    until(&client, "patient", &["Failed"]).await;
    assert_eq!(log(&client, "patient-master-0").await, "before\nafter\n");
    let pod = pods(&client, "patient").await.remove(0);
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    assert_eq!(statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_restart_and_logs_of_the_run_before() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "1"]).await;
    let client = up.client().await;
    let alive = home.path().join("alive");
    fs::write(&alive, "").unwrap();
    let sick = each_replica(
        job("sick", 0, "echo run; trap 'exit 9' TERM; while :; do sleep 0.1; done"),
        |replica| {
            replica["restartPolicy"] = json!("OnFailure");
            replica["template"]["spec"]["containers"][0]["livenessProbe"] = json!({
            "exec": { "command": ["test", "-e", alive.to_string_lossy()] }, "periodSeconds": 1, "failureThreshold": 1 });
        },
    );
    create(&client, &sick).await;
    until(&client, "sick", &["Running"]).await;
    fs::remove_file(&alive).unwrap();
    eventually("it was restarted", async || {
        let pods = pods(&client, "sick").await;
        let status = pods.first().and_then(|pod| pod.status.clone()?.container_statuses);
        status.is_some_and(|statuses| statuses[0].restart_count >= 1)
    })
    .await;
    fs::write(&alive, "").unwrap();
    let previous = up.command(&["logs", "sick", "--previous"]);
    assert!(
        text(&previous.stdout).starts_with("run\n"),
        "{}{}",
        text(&previous.stdout),
        text(&previous.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_can_be_left_out() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--without", "operator,node"]).await;
    let client = up.client().await;
    create(&client, &job("idle", 0, "true")).await;
    assert!(pods(&client, "idle").await.is_empty());
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
    assert!(nodes.list(&Default::default()).await.unwrap().items.is_empty());
}

/// A replica that failed is replaced by a new pod; what its predecessor said is what people look for then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_the_pod_before() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let once = home.path().join("once");
    let script = format!(
        "if [ -e {f} ]; then echo second; while :; do sleep 0.1; done; fi; touch {f}; echo first; exit 137",
        f = once.display()
    );
    let replaced =
        each_replica(job("again", 0, &script), |replica| replica["restartPolicy"] = json!("ExitCode"));
    create(&client, &replaced).await;
    eventually("the second run speaks", async || {
        let running = text(&up.command(&["logs", "again"]).stdout);
        running.contains("second")
    })
    .await;
    let previous = up.command(&["logs", "again", "--previous"]);
    assert_eq!(text(&previous.stdout), "first\n", "{}", text(&previous.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_for_every_container() {
    let home = tempfile::tempdir().unwrap();
    let args = ["--env", "PLACE=$(HOME)/here", "--env", "TONE=loud", "--env", "PATH=/no/such/bin:$(PATH)"];
    let up = Up::start(&home.path().join("data"), &args).await;
    let client = up.client().await;
    let job = each_replica(job("told", 0, "echo $PLACE $TONE $PATH"), |replica| {
        replica["template"]["spec"]["containers"][0]["env"] = json!([{ "name": "TONE", "value": "soft" }]);
    });
    create(&client, &job).await;
    until(&client, "told", &["Succeeded"]).await;
    let said = log(&client, "told-master-0").await;
    assert!(said.contains("/here soft /no/such/bin:/usr/"), "{said}");
    let output = trainyard(home.path()).args(["up", "--env", "=x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("write NAME=VALUE"), "{}", text(&output.stderr));
}

/// Worker 1 fails; the others notice and fail too. Which was first is what somebody wants to know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_failure_of_a_cascade_is_told_with_its_last_words() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let pid = home.path().join("pid");
    let pid = pid.display();
    // Times are kept in whole seconds.
    let script = format!(
        "if [ $RANK = 2 ]; then for n in 1 2 3; do echo step $n; done; echo cannot read shard 7; \
         echo $$ > {pid}.new; mv {pid}.new {pid}; exit 3; fi; \
         until [ -e {pid} ]; do sleep 0.1; done; while kill -0 $(cat {pid}); do sleep 0.1; done; \
         sleep 1.1; echo connection reset by peer; exit 1"
    );
    create(&client, &job("cascade", 2, &script)).await;
    let failed = until(&client, "cascade", &["Failed"]).await;
    let first = &failed.data["status"]["firstFailure"];
    assert_eq!((&first["pod"], &first["exitCode"]), (&json!("cascade-worker-1"), &json!(3)), "{first}");
    assert!(!first["node"].as_str().unwrap_or_default().is_empty(), "{first}");
    let log: Vec<&str> = first["log"].as_array().unwrap().iter().filter_map(|line| line.as_str()).collect();
    assert_eq!(log, ["step 1", "step 2", "step 3", "cannot read shard 7"]);
    let page = text(&up.command(&["describe", "cascade"]).stdout);
    for line in ["First failure:", "  cascade-worker-1, on ", "exit code 3", "  | cannot read shard 7"] {
        assert!(page.contains(line), "{line:?} is not in {page}");
    }
    let told = async || text(&up.command(&["describe", "cascade"]).stdout).contains("FirstFailure");
    eventually("an event says so", told).await;
}
