//! A control plane as a value: started in order, usable when `start` returns, gone when it is dropped.

use std::path::{Path, PathBuf};

use crate::directory::Directory;
use crate::node::Node;
use crate::pki::{Pki, write_private};
use crate::ports::{Ports, was_taken};
use crate::probe::{Probe, is_ok_plain};
use crate::process::Process;
use crate::{Error, Programs};

/// How often a start is tried when another process was quicker at a port.
const ATTEMPTS: usize = 5;
/// The address in the `kubernetes` Endpoints. It may not be a loopback one; nobody connects to this documentation address.
const ADVERTISED: &str = "192.0.2.1";
const SERVICES: &str = "10.96.0.0/16";

/// What runs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Controller manager and scheduler, too.
    pub controllers: bool,
    /// A node on which pods run; it brings the controllers along. There is one per machine: a second start waits.
    pub node: bool,
    /// Writes are on disk when they are answered: for those who measure. Tests throw everything away anyway.
    pub durable: bool,
    /// Where keys, data and logs lie; a folder that goes with the cluster if not said.
    pub directory: Option<PathBuf>,
}

/// A running control plane. Its processes end with this value, and with this process.
#[derive(Debug)]
pub struct Cluster {
    node: Option<Node>,
    /// In the order of starting; ended in the reverse one.
    processes: Vec<Process>,
    pki: Pki,
    url: String,
    programs: Programs,
    kubeconfig: PathBuf,
    directory: Directory,
}

impl Cluster {
    /// Builds what is missing, starts, and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] on a machine that cannot build it; the others are failures.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let mut names =
            vec!["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];
        if options.node {
            Node::can_be_had()?;
            names.push("kubelet");
        }
        let programs = Programs::find(&names)?;
        let mut attempt = 1;
        loop {
            let directory = match &options.directory {
                None => Directory::temporary()?,
                Some(path) => Directory::named(path)?,
            };
            match Self::once(options, programs.clone(), directory) {
                Err(Error::Start { log, .. }) if was_taken(&log) && attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    /// As [`Cluster::start`], for tests: nothing where it cannot be had, after saying so. On a build server, where `CI` is
    /// set, that is an error: what is left out there is left out everywhere.
    ///
    /// # Errors
    /// Whatever `start` fails with, but [`Error::Missing`] and [`Error::NoNode`] only where `CI` is set.
    #[expect(clippy::print_stderr, reason = "a test that was left out has to say so")]
    pub fn for_test(options: &Options) -> Result<Option<Self>, Error> {
        match Self::start(options) {
            Ok(cluster) => Ok(Some(cluster)),
            Err(error @ (Error::Missing { .. } | Error::NoNode { .. }))
                if std::env::var_os("CI").is_none() =>
            {
                eprintln!("LEFT OUT: the comparison with the real thing. {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn once(options: &Options, programs: Programs, mut directory: Directory) -> Result<Self, Error> {
        let ports = Ports::pick()?;
        let url = format!("https://127.0.0.1:{}", ports.api);
        let pki = Pki::make(directory.path().join("pki"), &url)?;
        let kubeconfig = directory.path().join("kubeconfig");
        let log = directory.path().join("log");
        let processes = match start(options, &programs, directory.path(), &pki, ports, &log) {
            Ok(processes) => processes,
            Err(error) => {
                directory.keep();
                return Err(error);
            }
        };
        let node = match options.node.then(|| Node::start(&programs, &pki, &log)).transpose() {
            Ok(node) => node,
            Err(error) => {
                directory.keep();
                return Err(error);
            }
        };
        // Last, so that whoever waits for the file finds a ready server.
        write_private(&kubeconfig, &pki.kubeconfig(&url))?;
        Ok(Self { node, processes, pki, url, programs, kubeconfig, directory })
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bearer token of a member of `system:masters`.
    pub fn token(&self) -> &str {
        &self.pki.token
    }

    /// The certificate authority of the server, and of client certificates.
    pub fn ca_pem(&self) -> &str {
        &self.pki.ca_pem
    }

    /// A kubeconfig with the token.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The path of a program, for example `kubectl`.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.programs.path(name)
    }

    /// Where keys, data and logs lie.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.node.take());
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

fn start(
    options: &Options,
    programs: &Programs,
    folder: &Path,
    pki: &Pki,
    ports: Ports,
    log: &Path,
) -> Result<Vec<Process>, Error> {
    let mut etcd = Process::start(&programs.path("etcd"), log, &etcd_arguments(options, folder, ports))?;
    etcd.wait_until(|| is_ok_plain(ports.etcd, "/health"))?;
    let mut server = Process::start(&programs.path("kube-apiserver"), log, &server_arguments(pki, ports))?;
    let probe = Probe::new(&pki.ca_pem, ports.api, &pki.token)?;
    server.wait_until(|| probe.is_ok("/readyz"))?;
    let mut processes = vec![etcd, server];
    if options.controllers || options.node {
        let manager = programs.path("kube-controller-manager");
        let mut manager = Process::start(&manager, log, &manager_arguments(pki))?;
        let scheduler = Process::start(&programs.path("kube-scheduler"), log, &scheduler_arguments(pki))?;
        // Pods can be created from then on.
        manager.wait_until(|| probe.is_ok("/api/v1/namespaces/default/serviceaccounts/default"))?;
        processes.extend([manager, scheduler]);
    }
    Ok(processes)
}

fn etcd_arguments(options: &Options, folder: &Path, ports: Ports) -> Vec<String> {
    let [client, peer] = [ports.etcd, ports.etcd_peer].map(|port| format!("http://127.0.0.1:{port}"));
    let mut arguments = vec![
        "--name=default".into(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".into(),
    ];
    if !options.durable {
        arguments.push("--unsafe-no-fsync".into());
    }
    arguments
}

fn server_arguments(pki: &Pki, ports: Ports) -> Vec<String> {
    let path = |name: &str| pki.path(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.api),
        format!("--advertise-address={ADVERTISED}"),
        format!("--tls-cert-file={}", path("server.crt")),
        format!("--tls-private-key-file={}", path("server.key")),
        format!("--client-ca-file={}", path("ca.crt")),
        format!("--token-auth-file={}", path("tokens.csv")),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", path("accounts.pub")),
        format!("--service-account-signing-key-file={}", path("accounts.key")),
        format!("--service-cluster-ip-range={SERVICES}"),
        "--allow-privileged=true".into(),
        format!("--requestheader-client-ca-file={}", path("front-proxy-ca.crt")),
        // How it proves itself to a kubelet, and a kubelet to it.
        format!("--kubelet-client-certificate={}", path("admin.crt")),
        format!("--kubelet-client-key={}", path("admin.key")),
        format!("--kubelet-certificate-authority={}", path("ca.crt")),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--requestheader-allowed-names=front-proxy".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
    ]
}

/// What both of the others need: who they are, and no port of their own.
fn client_arguments(pki: &Pki, name: &str) -> Vec<String> {
    let kubeconfig = pki.path(&format!("{name}.kubeconfig")).display().to_string();
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        // The default limits cost seconds at the start and slow down every test.
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=2000".into(),
    ]
}

fn manager_arguments(pki: &Pki) -> Vec<String> {
    let path = |name: &str| pki.path(name).display().to_string();
    let mut arguments = client_arguments(pki, "kube-controller-manager");
    arguments.extend([
        "--use-service-account-credentials=true".into(),
        format!("--service-account-private-key-file={}", path("accounts.key")),
        format!("--root-ca-file={}", path("ca.crt")),
        format!("--cluster-signing-cert-file={}", path("ca.crt")),
        format!("--cluster-signing-key-file={}", path("ca.key")),
        "--allocate-node-cidrs=false".into(),
        format!("--service-cluster-ip-range={SERVICES}"),
    ]);
    arguments
}

fn scheduler_arguments(pki: &Pki) -> Vec<String> {
    client_arguments(pki, "kube-scheduler")
}
