//! The machine as a Node object.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::options::Options;

/// How often the node says that it is alive, when nothing else changes.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// After a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Registers the machine and keeps its status fresh.
pub(crate) async fn register(client: Client, options: &Options, shutdown: CancellationToken) {
    let api: Api<Node> = Api::all(client);
    while !shutdown.is_cancelled() {
        let pause = match announce(&api, options).await {
            Ok(()) => HEARTBEAT,
            Err(error) => {
                tracing::warn!(%error, "cannot register this machine as a node; will retry");
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

async fn announce(api: &Api<Node>, options: &Options) -> Result<(), kube::Error> {
    let labels = options.inventory.labels();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": options.name, "labels": labels },
    });
    let old = match api.get_opt(&options.name).await? {
        Some(old) => old,
        None => {
            let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &node).await?
        }
    };
    let labels = json!({ "metadata": { "labels": labels } });
    api.patch(&options.name, &PatchParams::default(), &Patch::Merge(labels)).await?;
    let status = json!({ "status": status(options, &old) });
    api.patch_status(&options.name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

fn status(options: &Options, old: &Node) -> Value {
    let now = options.now();
    let conditions = old.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|c| c.type_ == "Ready" && c.status == "True");
    let since = ready.and_then(|c| c.last_transition_time.as_ref()).map_or(now, |time| time.0);
    let capacity = options.inventory.capacity();
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            { "type": "InternalIP", "address": crate::pod::ADDRESS },
            { "type": "Hostname", "address": options.inventory.host_name },
        ],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "NodeReady",
            "message": "this machine runs pods as processes",
            "lastHeartbeatTime": format!("{now:.0}"), "lastTransitionTime": format!("{since:.0}"),
        }],
        "nodeInfo": {
            "architecture": arch(), "operatingSystem": "linux",
            "kernelVersion": read("/proc/sys/kernel/osrelease"),
            "bootID": read("/proc/sys/kernel/random/boot_id"),
            "machineID": "", "systemUUID": "", "osImage": "",
            "containerRuntimeVersion": concat!("trainyard://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": concat!("trainyard-", env!("CARGO_PKG_VERSION")),
            "kubeProxyVersion": "",
        },
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
