//! The binary from outside, as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected has to fail, and loudly")]

mod apply;
mod bed;
mod changes;
mod connect;
mod crds;
mod docs;
mod explain;
mod logs;
mod operator;
mod views;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a command said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs the binary in the repository, with nothing of the caller's environment that it reads.
fn trainyard(args: &[&str], input: &str) -> Said {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .args(args)
        .current_dir(root())
        .env_remove("KUBECONFIG")
        .env_remove("KUBEFLOW_NAMESPACE")
        .env_remove("CUSTOM_CLUSTER_DOMAIN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may refuse its arguments and be gone before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
