//! A control plane that is killed and never comes back.

use std::process::Command;

use crate::kit::{Up, create, eventually, job, processes_with, text, trainyard};

fn script(mark: &str) -> String {
    format!(
        "trap '' TERM; export {mark}; setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & while :; do sleep 1; done"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_end_by_themselves_after_the_time_that_was_given() {
    let home = tempfile::tempdir().unwrap();
    let mut up = Up::start(&home.path().join("data"), &["--orphans-after", "2s"]).await;
    let mark = format!("MARK=orphan-{}", std::process::id());
    let mut job = job("orphan", 2, &script(&mark));
    for role in ["Master", "Worker"] {
        job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["terminationGracePeriodSeconds"] =
            1.into();
    }
    create(&up.client().await, &job).await;
    eventually("they run", async || processes_with(&mark).len() >= 6).await;
    up.kill();
    eventually("they are gone", async || processes_with(&mark).is_empty()).await;
    eventually("their shims too", async || {
        trainyard_node::runtime::running_under(&up.dir.join("pods")).is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn down_ends_them_all_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut up = Up::start(&dir, &["--orphans-after", "never"]).await;
    let mark = format!("MARK=down-{}", std::process::id());
    create(&up.client().await, &job("orphan", 2, &script(&mark))).await;
    eventually("they run", async || processes_with(&mark).len() >= 6).await;
    // A process of somebody else that looks just like them.
    let mut other = Command::new("sleep").arg("1000").env("OTHER", &mark).spawn().unwrap();
    up.kill();
    let down = |dir: &str| {
        trainyard(home.path()).args(["down", "--grace-period", "1", "--data-dir", dir]).output().unwrap()
    };
    let output = down(&dir.to_string_lossy());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("ended 3 container(s)"), "{}", text(&output.stdout));
    assert!(processes_with(&mark).is_empty());
    assert!(other.try_wait().unwrap().is_none(), "the other process goes on");
    other.kill().unwrap();
    other.wait().unwrap();
    // Once more is no error.
    assert!(text(&down(&dir.to_string_lossy()).stdout).contains("ended 0 container(s)"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn down_stops_an_up_that_runs() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let up = Up::start(&dir, &[]).await;
    let mark = format!("MARK=stop-{}", std::process::id());
    create(&up.client().await, &job("busy", 0, &script(&mark))).await;
    eventually("it runs", async || !processes_with(&mark).is_empty()).await;
    let output = trainyard(home.path())
        .args(["down", "--grace-period", "0", "--data-dir"])
        .arg(&dir)
        .output()
        .unwrap();
    assert!(text(&output.stdout).starts_with("trainyard is down"), "{}", text(&output.stdout));
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_run_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let mark = format!("MARK=run-{}", std::process::id());
    let mut job = job("left", 1, &script(&mark));
    for role in ["Master", "Worker"] {
        job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["terminationGracePeriodSeconds"] =
            1.into();
    }
    let file = home.path().join("job.yaml");
    std::fs::write(&file, job.to_string()).unwrap();
    let mut run = trainyard(home.path())
        .arg("run")
        .arg(&file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("they run", async || processes_with(&mark).len() >= 4).await;
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("they are gone", async || processes_with(&mark).is_empty()).await;
}
