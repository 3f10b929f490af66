//! Gangs that do not fit together run one after the other, never half.

use std::fs;

use serde_json::json;

use crate::kit::{Up, create, each_replica, eventually, job, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gangs_that_fit_one_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--cpus", "4"]).await;
    let client = up.client().await;
    let diary = home.path().join("diary");
    // Three processors for each gang of three: two gangs would need six of four.
    let script =
        |name: &str| format!("echo + {name} >> {d}; sleep 1; echo - {name} >> {d}", d = diary.display());
    for name in ["one", "two", "three"] {
        let job = each_replica(job(name, 2, &script(name)), |replica| {
            replica["template"]["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1" } });
        });
        create(&client, &job).await;
    }
    for name in ["one", "two", "three"] {
        until(&client, name, &["Succeeded"]).await;
    }
    // A job has succeeded with its master; workers may still have a line to write.
    let all = || fs::read_to_string(&diary).unwrap().lines().count() == 18;
    eventually("everybody has come and gone", async || all()).await;
    let diary = fs::read_to_string(diary).unwrap();
    let mut inside: Vec<&str> = Vec::new();
    for line in diary.lines() {
        let (sign, name) = line.split_once(' ').unwrap();
        if sign == "+" {
            // Beside the last one of the gang before there is room for a whole gang; beside two there is not.
            let others = inside.iter().filter(|other| **other != name).count();
            assert!(others <= 1, "{name} beside {inside:?}:\n{diary}");
            inside.push(name);
        } else {
            inside.remove(inside.iter().position(|other| *other == name).unwrap());
        }
    }
    assert!(inside.is_empty(), "{diary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_can_never_fit_says_so_and_blocks_nobody() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--cpus", "2", "--gpus", "none"]).await;
    let client = up.client().await;
    let greedy = each_replica(job("greedy", 0, "true"), |replica| {
        replica["template"]["spec"]["containers"][0]["resources"] =
            json!({ "limits": { "nvidia.com/gpu": 4 } });
    });
    create(&client, &greedy).await;
    create(&client, &job("modest", 0, "true")).await;
    until(&client, "modest", &["Succeeded"]).await;
    let described = String::from_utf8(up.command(&["describe", "greedy"]).stdout).unwrap();
    assert!(described.contains("nvidia.com/gpu") && described.contains("never"), "{described}");
}
