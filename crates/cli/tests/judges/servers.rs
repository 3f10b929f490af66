//! The two servers that are compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_cluster::{Cluster, Options, Programs, free_port};

use crate::kit::Up;

/// Where a command is sent.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    kubectl: PathBuf,
    /// A copy of its own: each transcript sets its namespace in it.
    kubeconfig: PathBuf,
    /// Where commands run: files they write are nobody else's.
    pub(crate) scratch: PathBuf,
    /// What is called differently here than there, with the name that stands for it.
    names: Vec<(String, &'static str)>,
    /// A port on which nobody listens yet, as `$PORT`.
    port: u16,
}

impl Side {
    /// A side for one transcript, in a namespace that is named after it.
    pub(crate) fn new(name: &'static str, kubectl: &Path, kubeconfig: &Path, scratch: PathBuf) -> Self {
        std::fs::create_dir_all(&scratch).unwrap();
        let own = scratch.join(".kubeconfig");
        std::fs::copy(kubeconfig, &own).unwrap();
        let port = free_port().unwrap();
        let names = vec![(port.to_string(), "<port>")];
        Self { name, kubectl: kubectl.to_owned(), kubeconfig: own, scratch, names, port }
    }

    /// The same for a server whose node has this name.
    pub(crate) fn with_node(mut self, node: &str) -> Self {
        self.names.push((node.to_owned(), "<node>"));
        self
    }

    /// An output in which both sides call the same things the same.
    pub(crate) fn rename(&self, output: &str) -> String {
        self.names.iter().fold(output.to_owned(), |text, (name, stands)| text.replace(name, stands))
    }

    /// A line of shell in which `kubectl` is the real one and talks to this server.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let bin = self.kubectl.parent().unwrap().to_string_lossy().into_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(&self.scratch).stdin(std::process::Stdio::null());
        command.env("KUBECONFIG", &self.kubeconfig).env("PATH", format!("{bin}:{path}"));
        command.env("PORT", self.port.to_string());
        command.env("HOME", &self.scratch).env("TERM", "dumb").env("LC_ALL", "C").env("TZ", "UTC");
        command
    }
}

/// The real kubectl, if it can be had; where `CI` is set it has to be.
pub(crate) fn kubectl() -> Option<PathBuf> {
    match Programs::find(&["kubectl"]) {
        Ok(programs) => Some(programs.path("kubectl")),
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("LEFT OUT: everything that needs the real kubectl. {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A real control plane with its controllers, if one can be had.
pub(crate) fn real() -> Option<Cluster> {
    Cluster::for_test(&Options { controllers: true, ..Options::default() }).unwrap()
}

/// A real control plane with a real node, if one can be had.
pub(crate) fn real_node() -> Option<Cluster> {
    Cluster::for_test(&Options { node: true, ..Options::default() }).unwrap()
}

/// `trainyard up` with its node, and nobody who looks after training jobs.
pub(crate) async fn embedded_node(dir: &Path) -> Up {
    Up::start(dir, &["--without", "operator"]).await
}

/// `trainyard up` with nothing but the server and its controllers: no pod runs, as in a cluster without nodes.
pub(crate) async fn embedded(dir: &Path) -> Up {
    Up::start(dir, &["--without", "operator,node"]).await
}
