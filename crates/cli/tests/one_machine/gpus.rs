//! GPUs that do not exist, dealt out to processes that do: a host in this process.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};
use trainyard_core::Addressing;
use trainyard_host::{DataDir, Host, Store};
use trainyard_node::{BackOff, Inventory, Surroundings};

use crate::kit::{BIN, create, each_replica, eventually, job, log, pods, until};

/// A host; what an earlier one leaves behind ends a moment after it.
pub(crate) async fn host(path: &Path, gpus: u32) -> Host {
    for _ in 0..200 {
        match try_host(DataDir::open(path).unwrap(), gpus).await {
            Ok(host) => return host,
            Err(error) => assert!(format!("{error:?}").contains("in use"), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the store of a host that has ended stays open");
}

async fn try_host(dir: DataDir, gpus: u32) -> Result<Host, trainyard_host::Error> {
    let path = dir.path().to_owned();
    let node = trainyard_node::Options {
        name: "here".into(),
        root: path.clone(),
        inventory: Inventory::new("here", 64_000, 64 << 30).with_fake_gpus(gpus),
        shim: BIN.into(),
        lock: trainyard_host::lock_file(&path),
        orphans_after: Some(Duration::from_secs(60)),
        surroundings: Surroundings::Clean { env: Vec::new() },
        entrypoints: trainyard_node::Entrypoints::default(),
        back_off: BackOff::default(),
        open_files: None,
        log: trainyard_node::runtime::LogRules { max_bytes: 1 << 20, max_files: 2 },
        keep: trainyard_node::Keep::default(),
        lost_objects: trainyard_host::lost_objects_file(&path),
        isolate: None,
        api: None,
        clock: trainyard_operator::system_clock(),
    };
    let mut operator = trainyard_operator::Options { ports: Some((30_000, 31_999)), ..Default::default() };
    operator.plan.addressing = Addressing::HostPorts;
    operator.plan.gang_on_pods = true;
    let options = trainyard_host::Options::local();
    let host = Host::start(trainyard_host::Options {
        store: Store::In(dir),
        operator: Some(operator),
        node: Some(node),
        ..options
    })
    .await?;
    host.ready().await;
    Ok(host)
}

/// A job whose replicas each ask for GPUs, say what they got, and wait for the gate.
fn asking(name: &str, workers: u32, gpus: u32, gate: &Path) -> Value {
    let script =
        format!("echo got \"$CUDA_VISIBLE_DEVICES\"; while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    each_replica(job(name, workers, &script), |replica| {
        let container = &mut replica["template"]["spec"]["containers"][0];
        if gpus > 0 {
            container["resources"] = json!({ "limits": { "nvidia.com/gpu": gpus } });
        }
    })
}

async fn got(client: &Client, pod: &str) -> String {
    let running = async || {
        let pod = Api::<Pod>::namespaced(client.clone(), "default").get_opt(pod).await.unwrap();
        pod.and_then(|pod| pod.status?.phase).is_some_and(|phase| phase != "Pending")
    };
    eventually("it says what it got", async || running().await && log(client, pod).await.contains("got"))
        .await;
    log(client, pod).await.trim().to_owned()
}

fn unplaced(pods: &[Pod]) -> String {
    let conditions = pods.iter().filter_map(|pod| pod.status.as_ref()?.conditions.as_ref()).flatten();
    let waiting = conditions.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
    waiting.filter_map(|c| c.message.clone()).collect::<Vec<_>>().join("; ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gpus_are_dealt_out_never_shared_and_kept_across_restarts() {
    let home = tempfile::tempdir().unwrap();
    let (path, gate) = (home.path().join("data"), home.path().join("gate"));
    let first = host(&path, 2).await;
    let client = first.client();
    create(&client, &asking("pair", 1, 1, &gate)).await;
    let mut both = [got(&client, "pair-master-0").await, got(&client, "pair-worker-0").await];
    both.sort();
    assert_eq!(both, ["got GPU-fake-0", "got GPU-fake-1"]);
    create(&client, &asking("none", 0, 0, &gate)).await;
    assert_eq!(got(&client, "none-master-0").await, "got");
    create(&client, &asking("whole", 0, 2, &gate)).await;
    create(&client, &asking("greedy", 0, 3, &gate)).await;
    eventually("one waits, one would for ever", async || {
        let (whole, greedy) =
            (unplaced(&pods(&client, "whole").await), unplaced(&pods(&client, "greedy").await));
        whole.contains("waiting for 2 nvidia.com/gpu") && !whole.contains("never") && greedy.contains("never")
    })
    .await;
    drop(client);
    first.stop().await.unwrap();

    // Another control plane on the same directory: what was given is still given, and nothing of it is given twice.
    let second = host(&path, 2).await;
    let client = second.client();
    create(&client, &asking("late", 0, 1, &gate)).await;
    eventually("the late one waits", async || {
        unplaced(&pods(&client, "late").await).contains("nvidia.com/gpu")
    })
    .await;
    let assigned = pods(&client, "pair").await.into_iter().map(|pod| {
        pod.metadata.annotations.and_then(|map| map.get("trainyard.dev/gpus").cloned()).unwrap_or_default()
    });
    let mut assigned: Vec<String> = assigned.collect();
    assigned.sort();
    assert_eq!(assigned, ["GPU-fake-0", "GPU-fake-1"]);
    std::fs::write(&gate, "").unwrap();
    for name in ["pair", "none", "whole", "late"] {
        until(&client, name, &["Succeeded"]).await;
    }
    assert_eq!(got(&client, "whole-master-0").await, "got GPU-fake-0,GPU-fake-1");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let greedy = pods.get("greedy-master-0").await.unwrap();
    assert_eq!(greedy.status.unwrap().phase.as_deref(), Some("Pending"));
    second.stop().await.unwrap();
}
