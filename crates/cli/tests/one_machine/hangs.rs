//! A file system that never answers: nobody but the pod whose files it has notices.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::gpus::host;
use crate::kit::{LONG, create, delete, eventually, job, pods, until};

/// Does not wait for a writer.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_pod_whose_files_hang_stops_neither_the_api_nor_other_pods() {
    on_one_thread(hang_a_look);
}

#[test]
fn a_pod_whose_volumes_hang_says_so_and_can_be_deleted() {
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

/// While the init container runs, a file of a volume is replaced by one that hangs: the next container cannot start.
async fn hang_a_volume() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data");
    let host = host(&path, 0).await;
    let client = host.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = json!({ "metadata": { "name": "cm" }, "data": { "key": "value" } });
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let gate = home.path().join("gate");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({ "metadata": { "name": "stuck" }, "spec": { "restartPolicy": "Never",
        "initContainers": [{ "name": "first", "image": "none", "command": ["sh", "-c", script] }],
        "containers": [{ "name": "second", "image": "none", "command": ["true"] }],
        "volumes": [{ "name": "cm", "configMap": { "name": "cm" } },
                    { "name": "nfs", "hostPath": { "path": home.path() } }] } });
    let made = api.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let volume = path.join("pods").join(made.metadata.uid.unwrap()).join("volumes/cm");
    eventually("the volume is there", async || volume.join("key").exists()).await;
    let file = fs::canonicalize(volume.join("key")).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    fs::write(&gate, "").unwrap();

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
