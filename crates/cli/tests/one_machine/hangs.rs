//! A file system that never answers: nobody but the pod whose files it has notices.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::gpus::host;
use crate::kit::{LONG, create, delete, eventually, job, pods, until};

/// Does not wait for a writer.
const O_NONBLOCK: i32 = 0o4000;

/// The host has one thread. Were one file read on it, everything would stand still, this test too: so somebody else waits.
#[test]
fn a_pod_whose_files_hang_stops_neither_the_api_nor_other_pods() {
    let (done, waiting) = mpsc::channel();
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(hang_one());
        done.send(()).unwrap();
    });
    match waiting.recv_timeout(LONG) {
        Ok(()) => test.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("one pod whose files hang stops everything"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(test.join().unwrap_err());
        }
    }
}

async fn hang_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data");
    let host = host(&path, 0).await;
    let client = host.client();
    create(&client, &job("stuck", 0, "sleep 1000")).await;
    until(&client, "stuck", &["Running"]).await;
    let uid = pods(&client, "stuck").await.remove(0).metadata.uid.unwrap();
    let run = path.join("pods").join(uid).join("containers/pytorch/0");
    let (state, aside) = (run.join("state"), run.join("state.aside"));
    fs::rename(&state, &aside).unwrap();
    assert!(Command::new("mkfifo").arg(&state).status().unwrap().success());
    look_again(&client, "stuck-master-0").await;

    create(&client, &job("other", 1, "true")).await;
    until(&client, "other", &["Succeeded"]).await;
    delete(&client, "other").await;
    eventually("the files of the other pods are removed", async || left(&path) == 1).await;

    // It can be opened for writing only while somebody waits for that: the look hangs.
    let mut waiting = None;
    eventually("the look at the pod hangs", async || {
        waiting = writer(&state);
        waiting.is_some()
    })
    .await;
    fs::rename(&aside, &state).unwrap();
    drop(waiting);
    delete(&client, "stuck").await;
    eventually("all files are removed", async || left(&path) == 0).await;
    host.stop().await.unwrap();
    let clock = trainyard_operator::system_clock();
    trainyard_node::end_containers(&path.join("pods"), Duration::ZERO, clock).await.unwrap();
}

fn writer(fifo: &Path) -> Option<fs::File> {
    OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(fifo).ok()
}

/// Pods that have more on disk than their logs.
fn left(path: &Path) -> usize {
    let pods = fs::read_dir(path.join("pods")).unwrap();
    pods.filter(|pod| pod.as_ref().unwrap().path().join("work").exists()).count()
}

/// A change of the pod, after which the node looks at it.
async fn look_again(client: &Client, pod: &str) {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "look": "again" } } }));
    api.patch(pod, &PatchParams::default(), &patch).await.unwrap();
}
