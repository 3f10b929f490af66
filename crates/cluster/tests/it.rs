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

#[test]
fn a_control_plane_starts_answers_and_leaves_nothing() {
    let options = Options { controllers: true, ..Options::default() };
    let Some(cluster) = Cluster::for_test(&options).unwrap() else { return };
    let kubectl = |arguments: &[&str]| {
        let output = Command::new(cluster.bin("kubectl"))
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
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
