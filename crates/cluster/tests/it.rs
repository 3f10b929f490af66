//! The control plane for real: it starts, answers, and is gone afterwards. Left out, and said so, where Go is missing.
#![cfg(test)]

use std::fs;
use std::path::Path;
use std::process::Command;

use trainyard_cluster::{Cluster, Options};

/// Processes whose command line names a path.
fn users_of(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(path)).collect()
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut command = Command::new(cluster.bin("kubectl"));
    let output = command.arg("--kubeconfig").arg(cluster.kubeconfig()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a node leaves traces in: mounts, cgroups, interfaces, folders.
fn traces_of_a_node() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let links = fs::read_dir("/sys/class/net").unwrap().flatten().map(|entry| entry.path());
    let roots = ["/var/lib", "/run"].map(|folder| Path::new(folder).join("trainyard-node"));
    let groups = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|it| it.path().join("trainyard-node"));
    let paths = links.chain(roots).chain(groups).filter(|path| path.exists());
    let lines = mounts.lines().map(str::to_owned).chain(paths.map(|path| path.display().to_string()));
    lines.filter(|line| line.contains("trainyard-n")).collect()
}

/// Needs root and containerd, so somebody has to ask for it.
#[test]
fn a_node_runs_pods_and_leaves_nothing() {
    if std::env::var_os("TRAINYARD_NODE").is_none() {
        return;
    }
    let options = Options { node: true, ..Options::default() };
    let Some(cluster) = Cluster::for_test(&options).unwrap() else { return };
    let image = format!("--image={}", trainyard_cluster::IMAGE);
    let kubectl = |arguments: &[&str]| kubectl(&cluster, arguments);
    kubectl(&["run", "p", &image, "--restart=Never", "--command", "--", "echo", "from a pod"]);
    kubectl(&["wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s"]);
    assert_eq!(kubectl(&["logs", "p"]), "from a pod\n");
    assert!(!traces_of_a_node().is_empty());
    let directory = cluster.directory().to_owned();
    drop(cluster);
    assert_eq!(traces_of_a_node(), Vec::<String>::new());
    assert_eq!(users_of(&directory), Vec::<String>::new());
}

#[test]
fn a_control_plane_starts_answers_and_leaves_nothing() {
    let options = Options { controllers: true, ..Options::default() };
    let Some(cluster) = Cluster::for_test(&options).unwrap() else { return };
    let kubectl = |arguments: &[&str]| kubectl(&cluster, arguments);
    let version = kubectl(&["version"]);
    assert!(version.contains(&format!("Server Version: v{}", trainyard_cluster::KUBERNETES)), "{version}");
    let account = kubectl(&["get", "serviceaccount", "default", "-o", "name"]);
    assert_eq!(account.trim(), "serviceaccount/default");
    let directory = cluster.directory().to_owned();
    assert_eq!(users_of(&directory).len() % 2, 0, "each program has its guard");
    assert!(!users_of(&directory).is_empty());
    drop(cluster);
    assert_eq!(users_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}
