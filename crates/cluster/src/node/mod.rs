//! A real node beside the control plane: containerd, runc, a bridge and the kubelet, on this machine.
//!
//! There is one per machine, with names that do not change: whoever comes next finds and removes what a killed test left
//! behind. Nothing leaves the machine, for pods have an address on a bridge of their own and no route beyond it, and
//! images are made here.

mod cgroups;
mod guard;
mod image;
mod needs;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::guard::Guard;
use crate::pki::Pki;
use crate::process::Process;
use crate::{Error, Programs};

/// What the node, its bridge and its cgroup are called.
pub(crate) const NAME: &str = "trainyard-node";
/// An interface's name has at most 15 characters.
const BRIDGE: &str = "trainyard-n0";
/// Of a range for test benches, which leads nowhere.
const SUBNET: &str = "198.18.77.0/24";
/// The bridge's address: a kubelet wants one that is not loopback.
pub(crate) const ADDRESS: &str = "198.18.77.1";
/// The image for containers, from busybox.
pub const IMAGE: &str = "busybox:1";
/// The image that holds a pod's namespaces.
const PAUSE: &str = "trainyard.test/pause:1";

/// Where the node lives.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Images, containers, the kubelet's files.
    root: PathBuf,
    /// Sockets and mounts.
    state: PathBuf,
}

impl Places {
    fn usual() -> Self {
        Self { root: Path::new("/var/lib").join(NAME), state: Path::new("/run").join(NAME) }
    }

    fn socket(&self) -> PathBuf {
        self.state.join("containerd.sock")
    }
}

/// A running node. It goes with this value, with everything that runs on it.
#[derive(Debug)]
pub(crate) struct Node {
    places: Places,
    // In the order of their ends: first who would start something again.
    kubelet: Option<Process>,
    containerd: Option<Process>,
    _guard: Guard,
}

impl Node {
    /// Says what this machine lacks for one.
    pub(crate) fn can_be_had() -> Result<(), Error> {
        needs::check()
    }

    /// Starts it and waits until it is Ready.
    pub(crate) fn start(programs: &Programs, pki: &Pki, log: &Path) -> Result<Self, Error> {
        let places = Places::usual();
        let guard = Guard::new(&places)?;
        let mut node = Self { places, kubelet: None, containerd: None, _guard: guard };
        node.bring_up(programs, pki, log)?;
        Ok(node)
    }

    fn bring_up(&mut self, programs: &Programs, pki: &Pki, log: &Path) -> Result<(), Error> {
        let places = &self.places;
        for folder in [&places.root, &places.state, &places.root.join("cni")] {
            fs::create_dir_all(folder).map_err(Error::at(folder))?;
        }
        make_bridge()?;
        cgroups::make()?;
        let write = |name: &str, text: String| {
            let path = places.root.join(name);
            fs::write(&path, text).map_err(Error::at(&path)).map(|()| path.display().to_string())
        };
        write("cni/10-bridge.conflist", settings::network(places))?;
        let config = write("containerd.toml", settings::containerd(places))?;
        let containerd = Process::start(Path::new("containerd"), log, &["--config".into(), config])?;
        let containerd = self.containerd.insert(containerd);
        containerd.wait_until(|| run(&mut ctr(places, &["version"])).is_ok())?;
        image::import(places)?;
        let config = write("kubelet.yaml", settings::kubelet(places, pki))?;
        let arguments = settings::kubelet_arguments(places, pki, &config);
        let kubelet = self.kubelet.insert(Process::start(&programs.path("kubelet"), log, &arguments)?);
        let kubeconfig = pki.path(&format!("{NAME}.kubeconfig"));
        kubelet.wait_until(|| is_ready(&programs.path("kubectl"), &kubeconfig))
    }
}

fn make_bridge() -> Result<(), Error> {
    let (_, length) = SUBNET.split_once('/').unwrap_or_default();
    run(Command::new("ip").args(["link", "add", BRIDGE, "type", "bridge"]))?;
    run(Command::new("ip").args(["address", "add", &format!("{ADDRESS}/{length}"), "dev", BRIDGE]))?;
    run(Command::new("ip").args(["link", "set", BRIDGE, "up"]))
}

fn is_ready(kubectl: &Path, kubeconfig: &Path) -> bool {
    let state = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let mut command = Command::new(kubectl);
    command.arg("--kubeconfig").arg(kubeconfig).args(["get", "node", NAME, "--output", state]);
    command.output().is_ok_and(|output| output.stdout == b"True")
}

/// A command to our containerd, in the namespace that kubelets use.
fn ctr(places: &Places, arguments: &[&str]) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(places.socket()).args(["--namespace", "k8s.io"]).args(arguments);
    command
}

/// Runs a tool; what it complains about if it fails.
fn run(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::at(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Start { program, why: format!("ended with {}", output.status), log })
}
