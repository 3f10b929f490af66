//! Which server is meant.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use trainyard_testkit::{PodScript, pytorch};

use crate::bed::{bed, kubeconfig, said};

#[tokio::test]
async fn without_a_kubeconfig_it_says_what_to_write() {
    let bed = bed(|_| PodScript::runs()).await;
    let child = bed.command(&["list"]).env_remove("KUBECONFIG").spawn().unwrap();
    let nothing = said(child).await;
    assert_eq!(nothing.code, Some(1));
    for part in ["no kubeconfig was found", "trainyard up", "export KUBECONFIG="] {
        assert!(nothing.err.contains(part), "{}", nothing.err);
    }
    let missing = said(bed.command(&["list"]).env("KUBECONFIG", "no/such").spawn().unwrap()).await;
    assert!(missing.err.contains("$KUBECONFIG names no/such, which does not exist"), "{}", missing.err);
    let broken = bed.write("broken", "clusters: [");
    let broken = said(bed.command(&["list"]).env("KUBECONFIG", broken).spawn().unwrap()).await;
    assert!(broken.err.contains("cannot read"), "{}", broken.err);
}

#[tokio::test]
async fn several_files_are_one_and_a_context_brings_its_namespace() {
    let bed = bed(|_| PodScript::runs()).await;
    bed.plane
        .create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }))
        .await;
    bed.plane.create(pytorch("theirs").workers(1).namespace("other")).await;
    let more = json!({ "apiVersion": "v1", "kind": "Config",
        "contexts": [{ "name": "y", "context": { "cluster": "c", "user": "u", "namespace": "other" } }] });
    let more = bed.write("more", &more.to_string());
    let files = format!("no/such:{}:{more}", bed.kubeconfig());
    let run = |args: &[&str]| {
        let child = bed.command(args).env("KUBECONFIG", &files).spawn().unwrap();
        said(child)
    };
    assert!(run(&["list", "--context", "y"]).await.out.contains("theirs"));
    assert!(!run(&["list"]).await.out.contains("theirs"));
    assert!(run(&["list", "-n", "other"]).await.out.contains("theirs"));
    assert!(run(&["list", "-A"]).await.out.contains("other       PyTorchJob"));
    let unknown = run(&["list", "--context", "z"]).await;
    assert!(unknown.err.contains("has no context \"z\", it has [\"x\", \"y\"]"), "{}", unknown.err);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named() {
    let bed = bed(|_| PodScript::runs()).await;
    // Nobody listens on port 1.
    let dead = bed.write("dead", &kubeconfig("http://127.0.0.1:1").to_string());
    let error = bed.fails(&["list", "--kubeconfig", &dead]).await;
    assert!(error.contains("no answer from http://127.0.0.1:1/: does it run?"), "{error}");
    let mut contexts: Value = kubeconfig("http://127.0.0.1:1");
    contexts["current-context"] = "".into();
    let none = bed.write("none", &contexts.to_string());
    let error = bed.fails(&["list", "--kubeconfig", &none]).await;
    assert!(error.contains("current-context: Required value"), "{error}");
}

/// A server that takes connections, and answers each with this text or not at all.
async fn odd_server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            if answer.is_empty() {
                open.push(stream);
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let bed = bed(|_| PodScript::runs()).await;
    let silent = bed.write("silent", &kubeconfig(&odd_server("").await).to_string());
    let error = bed.fails(&["wait", "a", "--timeout", "1s", "--kubeconfig", &silent]).await;
    assert!(error.contains("the server did not answer within 11s"), "{error}");
}

#[tokio::test]
async fn what_is_no_api_server_is_told_from_one_that_is_away() {
    let bed = bed(|_| PodScript::runs()).await;
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>",
        "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
    ] {
        let other = bed.write("other", &kubeconfig(&odd_server(answer).await).to_string());
        let error = bed.fails(&["list", "--kubeconfig", &other]).await;
        assert!(error.contains("answered, but not as a Kubernetes API server does"), "{answer}: {error}");
    }
}

#[tokio::test]
async fn usage_errors_end_with_2() {
    let bed = bed(|_| PodScript::runs()).await;
    let cases: [&[&str]; 7] = [
        &["wait"],
        &["wait", "a", "--for", "condition=Done"],
        &["wait", "a", "--timeout", "soon"],
        &["logs", "a", "--since", "yesterday"],
        &["logs", "a", "-f", "--previous"],
        &["scale", "a"],
        &["completion", "tcsh"],
    ];
    for args in cases {
        let said = bed.run(args).await;
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
    }
    assert!(bed.ok(&["completion", "bash"]).await.contains("_trainyard"));
}
