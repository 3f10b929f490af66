//! What containers say about their end.

use super::*;
use crate::kit::{Up, can_mount};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_says_why_it_ended() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let own = home.path().join("own");
    let place = |path: &Path| json!({ "terminationMessagePath": path.to_string_lossy() });
    let fall_back = json!({ "terminationMessagePolicy": "FallbackToLogsOnError" });
    let usual = |script: &str| script.replace("$LOG", "/dev/termination-log");
    let chosen = |script: &str| script.replace("$LOG", &own.to_string_lossy());
    let containers = json!([
        with(sh("chosen", &chosen("printf 'from here' > $LOG; exit 3")), place(&own)),
        with(sh("beside", &chosen("sleep 0.2; printf 'from there' > $LOG; exit 4")), place(&own)),
        with(sh("good", &chosen("printf done > $LOG")), place(&own)),
        with(
            sh("long", &chosen("head -c 5000 /dev/zero | tr '\\0' x > $LOG; printf end >> $LOG")),
            place(&own)
        ),
        with(sh("log", &chosen("echo in the log; exit 5")), with(place(&own), fall_back.clone())),
        with(
            sh("both", &chosen("echo in the log; printf first > $LOG; exit 6")),
            with(place(&own), fall_back)
        ),
        sh("usual", &usual("[ \"$(id -u)\" != 0 ] || printf 'at the usual place' > $LOG; exit 7")),
    ]);
    make(&client, pod("says", json!({ "restartPolicy": "Never", "containers": containers }))).await;
    let ended = until(&client, "says", "Failed").await;
    for (name, code, message) in [
        ("chosen", 3, "from here"),
        ("beside", 4, "from there"),
        ("good", 0, "done"),
        ("log", 5, "in the log\n"),
        ("both", 6, "first"),
    ] {
        let (found, _, said) = exit(&ended, name);
        assert_eq!((found, said.as_str()), (code, message), "{name}");
    }
    let (_, _, long) = exit(&ended, "long");
    assert!(long.len() == 4096 && long.ends_with("xend"), "{}: {long:.20}", long.len());
    assert!(!own.exists(), "nothing of it is on the machine");
    if Path::new("/dev/termination-log").exists() {
        assert_eq!(exit(&ended, "usual").2, "at the usual place");
        assert_eq!(fs::read_to_string("/dev/termination-log").unwrap(), "", "each has its own");
    } else {
        println!("SKIPPED: only root can have the usual place");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_its_own_message_and_a_deleted_pod_leaves_none() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--back-off-seconds", "0"]).await;
    let client = up.client().await;
    // Beside the message new files would be the container's alone.
    let (place, count) = (home.path().join("why"), home.path().join("kept/count"));
    fs::create_dir(home.path().join("kept")).unwrap();
    let script = format!(
        "echo >> {count}; [ $(wc -l < {count}) = 1 ] || exec sleep 1000; printf 'the first' > {why}; exit 1",
        count = count.display(),
        why = place.display()
    );
    let main = with(sh("c", &script), json!({ "terminationMessagePath": place.to_string_lossy() }));
    make(&client, pod("again", json!({ "restartPolicy": "OnFailure", "containers": [main] }))).await;
    eventually("the second run goes on", async || {
        let pod = api(&client).get("again").await.unwrap();
        let Some(status) = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first()) else {
            return false;
        };
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        last.and_then(|end| end.message.as_deref()) == Some("the first")
            && status.state.as_ref().is_some_and(|state| state.running.is_some())
    })
    .await;
    let uid = api(&client).get("again").await.unwrap().metadata.uid.unwrap();
    let params = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    api(&client).delete("again", &params).await.unwrap();
    gone(&client, "again").await;
    let runs = up.dir.join("pods").join(uid).join("containers/c");
    eventually("only logs are left", async || {
        let runs = fs::read_dir(&runs).into_iter().flatten().flatten();
        runs.into_iter().all(|run| !run.path().join("termination-log").exists())
    })
    .await;
}
