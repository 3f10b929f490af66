//! Libraries that programs are written with: client-go and controller-runtime, and Python's `kubernetes`.

use std::path::Path;
use std::process::{Command, Output};

use trainyard_cluster::Programs;

use crate::kit::text;
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
