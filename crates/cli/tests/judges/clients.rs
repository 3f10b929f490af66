//! Libraries that programs are written with: client-go and controller-runtime, Python's `kubernetes`, and upstream's SDK.

use std::path::Path;
use std::process::{Command, Output};

use trainyard_cluster::Programs;

use crate::kit::{Up, text};
use crate::python::{Needs, python};
use crate::servers;

/// What `prepare` gives, if it can be had; where `CI` is set it has to be.
fn or_left_out<T>(what: &str, prepared: Result<T, impl std::fmt::Display>) -> Option<T> {
    match prepared {
        Ok(prepared) => Some(prepared),
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("LEFT OUT: {what}. {error}");
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Runs a program against both servers: it must succeed on each, and say the same.
async fn judge(program: impl Fn(&Path) -> Command) {
    let home = tempfile::tempdir().unwrap();
    let up = servers::embedded(&home.path().join("up")).await;
    let here = succeeded("the embedded server", program(&up.dir.join("kubeconfig")).output().unwrap());
    if let Some(real) = servers::real() {
        let there = succeeded("the real server", program(real.kubeconfig()).output().unwrap());
        assert_eq!(here, there);
    }
}

fn succeeded(server: &str, output: Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{server}: {}\n{out}\n{err}", output.status);
    out
}

#[tokio::test]
async fn programs_in_go() {
    let program = Programs::find(&["clients"]).map(|programs| programs.path("clients"));
    let Some(program) = or_left_out("client-go and controller-runtime", program) else { return };
    judge(|kubeconfig| {
        let mut command = Command::new(&program);
        command.env("KUBECONFIG", kubeconfig);
        command
    })
    .await;
}

/// The client library for Python, at the version that is compared.
const PYTHON_CLIENT: Needs = Needs::Pip(&["kubernetes==37.0.2"]);

#[tokio::test]
async fn programs_in_python() {
    let Some(python) = or_left_out("Python's client library", python(PYTHON_CLIENT)) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/client.py");
    judge(|kubeconfig| {
        let mut command = Command::new(&python);
        command.arg(&script).env("KUBECONFIG", kubeconfig).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    })
    .await;
}

/// Upstream's SDK for jobs; it does not work with the newest client library.
const SDK: Needs = Needs::Pip(&["kubeflow-training==1.9.3", "kubernetes==35.0.0"]);
/// What one of its functions trains with.
const TORCH: Needs = Needs::Debian(&["python3-torch"], "import torch");

#[tokio::test]
async fn scenario_41_the_sdk_for_jobs() {
    let found = python(SDK).and_then(|sdk| python(TORCH).map(|_| sdk));
    let Some(python) = or_left_out("upstream's SDK", found) else { return };
    let home = tempfile::tempdir().unwrap();
    // What pods install goes into their own directories, as it would in containers.
    let path = format!("PATH={}:$(PATH)", python.parent().unwrap().display());
    let (target, search) = ("PIP_TARGET=$(HOME)/packages", "PYTHONPATH=$(HOME)/packages");
    let image = "registry.example/greeter=echo hello";
    let args = ["--env", &path, "--env", target, "--env", search, "--entrypoint", image];
    let up = Up::start(&home.path().join("up"), &args).await;
    let folder = home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/sdk.py");
    let mut command = Command::new(&python);
    command.arg(script).arg(up.dir.join("kubeconfig")).arg(&folder).env("PYTHONDONTWRITEBYTECODE", "1");
    eprint!("{}", succeeded("`up`", command.output().unwrap()));
}
