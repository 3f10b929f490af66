//! `trainyard operator`: what it says when it cannot run, and that it runs over a real connection.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trainyard_host::{Host, Options};
use trainyard_testkit::pytorch;
use trainyard_testkit::rest::Rest;

use crate::trainyard;

#[test]
fn says_what_it_lacks() {
    let said = trainyard(&["operator", "--enable-scheme", "CaffeJob"], "");
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("scheme CaffeJob is not supported yet"), "{}", said.err);
    let said = trainyard(&["operator", "--kubeconfig", "no/such/kubeconfig"], "");
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot read no/such/kubeconfig"), "{}", said.err);
}

/// Serves an API without an operator on a port of this machine, and writes a kubeconfig for it.
async fn serve(dir: &Path) -> Host {
    let host = Host::start(Options { operator: None, ..Options::local().unwrap() }).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = host.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    std::fs::write(dir.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    host
}

fn operator(dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .args(["operator", "--enable-scheme", "pytorchjob", "--kubeconfig"])
        .arg(dir.join("kubeconfig"))
        .env_remove("KUBEFLOW_NAMESPACE")
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn runs_jobs_over_a_connection_and_stops_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let host = serve(dir.path()).await;
    let rest = Rest::new(host.client());
    let mut child = operator(dir.path());
    let job: Value = pytorch("a").master().workers(2).into();
    rest.post("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", &job).await.unwrap();
    let count = || async {
        let list = rest.get("/api/v1/namespaces/default/pods").await.unwrap();
        list.get("items").and_then(Value::as_array).map_or(0, Vec::len)
    };
    while count().await < 3 {
        assert!(child.try_wait().unwrap().is_none(), "the operator ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let code = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
    assert_eq!(code.code(), Some(0), "it stops in order when it is told to");
    host.stop().await.unwrap();
}
