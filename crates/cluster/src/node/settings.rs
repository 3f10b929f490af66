//! The settings of containerd, the bridge plugin and the kubelet. All of them ask for little: a node for tests also starts
//! where cgroups are of version 1, where memory is swapped, and where no process may be made safe from the OOM killer.

use super::needs::PLUGINS;
use super::{ADDRESS, BRIDGE, NAME, PAUSE, Places, SUBNET};
use crate::pki::Pki;

/// The network of pods. No gateway, so no route out of it, and nothing is changed about how this machine forwards.
pub(super) fn network(places: &Places) -> String {
    let leases = places.state.join("addresses");
    format!(
        r#"{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{"type": "bridge", "bridge": "{BRIDGE}", "ipMasq": false,
 "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{SUBNET}"}}]], "dataDir": "{}"}}}}]}}
"#,
        leases.display()
    )
}

pub(super) fn containerd(places: &Places) -> String {
    let (root, state) = (places.root.display(), places.state.display());
    let socket = places.socket();
    format!(
        r#"version = 2
root = "{root}/containerd"
state = "{state}/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{PLUGINS}"
conf_dir = "{root}/cni"
"#,
        socket = socket.display()
    )
}

pub(super) fn kubelet(places: &Places, pki: &Pki) -> String {
    let root = places.root.display();
    let path = |name: &str| pki.path(name).display().to_string();
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {ADDRESS}
port: 10250
readOnlyPort: 0
healthzPort: 0
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: "{ca}"}}}}
authorization: {{mode: Webhook}}
tlsCertFile: "{certificate}"
tlsPrivateKeyFile: "{key}"
containerRuntimeEndpoint: "unix://{socket}"
cgroupDriver: cgroupfs
cgroupRoot: /{NAME}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
podLogsDir: "{root}/logs"
volumePluginDir: "{root}/plugins"
clusterDNS: [{ADDRESS}]
resolvConf: ""
serializeImagePulls: false
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}}
nodeStatusUpdateFrequency: 5s
kubeAPIQPS: 200
kubeAPIBurst: 400
"#,
        ca = path("ca.crt"),
        certificate = path(&format!("{NAME}.crt")),
        key = path(&format!("{NAME}.key")),
        socket = places.socket().display(),
    )
}

pub(super) fn kubelet_arguments(places: &Places, pki: &Pki, config: &str) -> Vec<String> {
    let root = places.root.join("kubelet");
    vec![
        format!("--config={config}"),
        format!("--kubeconfig={}", pki.path(&format!("{NAME}.kubeconfig")).display()),
        format!("--hostname-override={NAME}"),
        format!("--node-ip={ADDRESS}"),
        format!("--root-dir={}", root.display()),
        format!("--cert-dir={}", root.join("pki").display()),
    ]
}
