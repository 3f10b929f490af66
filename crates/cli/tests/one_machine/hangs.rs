//! A file system that never answers: nobody but the pod whose files it has notices.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use crate::gpus::host;
use crate::kit::{LONG, create, delete, eventually, job, pods, until};
use crate::users::cannot;

/// Does not wait for a writer.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_pod_whose_files_hang_stops_neither_the_api_nor_other_pods() {
    on_one_thread(hang_a_look);
}

#[test]
fn a_pod_whose_volumes_hang_says_so_and_can_be_deleted() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    on_one_thread(hang_a_volume);
}

/// Were one file read on this thread, everything would stand still, this test too: so another thread waits for it.
fn on_one_thread<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
        // What hangs is not waited for.
        runtime.shutdown_background();
        done.send(()).unwrap();
    });
    match waiting.recv_timeout(LONG * 2) {
        Ok(()) => test.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("one pod whose files hang stops everything"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(test.join().unwrap_err());
        }
    }
}

async fn hang_a_look() {
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

/// A file system that takes questions and never answers, as one on a dead server does. This thread and those that it
/// starts see it, and nobody else. It answers with an error when the file is closed.
fn dead_mount(at: &Path) -> fs::File {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    mount(Some("dead"), at, Some("fuse"), MsFlags::empty(), Some(options.as_str())).unwrap();
    device
}

async fn hang_a_volume() {
    let home = tempfile::tempdir().unwrap();
    let dead = home.path().join("dead");
    fs::create_dir(&dead).unwrap();
    let device = dead_mount(&dead);
    let host = host(&home.path().join("data"), 0).await;
    let client = host.client();
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({ "metadata": { "name": "stuck" }, "spec": { "restartPolicy": "Never",
        "containers": [{ "name": "c", "image": "none", "command": ["true"],
                         "volumeMounts": [{ "name": "nfs", "mountPath": "/data" }] }],
        "volumes": [{ "name": "nfs", "hostPath": { "path": dead } }] } });
    api.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();

    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    eventually("the pod says that its volumes hang", async || {
        let said = events.list(&Default::default()).await.unwrap();
        said.iter().any(|event| event.message.as_ref().is_some_and(|text| text.contains("does not answer")))
    })
    .await;
    create(&client, &job("other", 0, "true")).await;
    until(&client, "other", &["Succeeded"]).await;
    api.delete("stuck", &Default::default()).await.unwrap();
    eventually("it is deleted", async || api.get_opt("stuck").await.unwrap().is_none()).await;
    host.stop().await.unwrap();
    drop(device);
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
