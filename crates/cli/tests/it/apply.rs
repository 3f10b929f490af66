//! `trainyard apply` and `trainyard delete`.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use trainyard_testkit::{PodScript, pytorch};

use crate::bed::{bed, said};

const NOTE: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn config(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": data })
}

#[tokio::test]
async fn creates_then_changes_then_leaves_alone() {
    let bed = bed(|_| PodScript::runs()).await;
    let job: Value = pytorch("a").master().workers(1).into();
    let file = bed.write("job.yaml", &job.to_string());
    assert_eq!(bed.ok(&["apply", "-f", &file]).await, "pytorchjob.kubeflow.org/a created\n");
    assert_eq!(bed.ok(&["apply", &file]).await, "pytorchjob.kubeflow.org/a unchanged\n");
    let more: Value = pytorch("a").master().workers(2).into();
    bed.write("job.yaml", &more.to_string());
    assert_eq!(bed.ok(&["apply", "-f", &file]).await, "pytorchjob.kubeflow.org/a configured\n");
    let stored = bed.plane.job("PyTorchJob", "a").await.unwrap();
    assert_eq!(stored.pointer("/spec/pytorchReplicaSpecs/Worker/replicas"), Some(&json!(2)));
}

#[tokio::test]
async fn what_was_taken_out_goes_and_what_others_wrote_stays() {
    let bed = bed(|_| PodScript::runs()).await;
    let file = bed.write("c.yaml", &config(&json!({ "keep": "1", "drop": "2" })).to_string());
    assert_eq!(bed.ok(&["apply", "-f", &file]).await, "configmap/c created\n");
    let path = "/api/v1/namespaces/default/configmaps/c";
    let patch = json!({ "data": { "theirs": "3" }, "metadata": { "labels": { "l": "v" } } });
    bed.plane.rest().merge(path, &patch).await.unwrap();
    bed.write("c.yaml", &config(&json!({ "keep": "1" })).to_string());
    assert_eq!(bed.ok(&["apply", "-f", &file]).await, "configmap/c configured\n");
    let stored = bed.plane.rest().get(path).await.unwrap();
    assert_eq!(stored["data"], json!({ "keep": "1", "theirs": "3" }));
    assert_eq!(stored["metadata"]["labels"], json!({ "l": "v" }));
    let note = "{\"apiVersion\":\"v1\",\"data\":{\"keep\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":\
                {\"annotations\":{},\"name\":\"c\",\"namespace\":\"default\"}}\n";
    assert_eq!(stored["metadata"]["annotations"][NOTE], note, "as kubectl writes it");
}

#[tokio::test]
async fn an_object_that_apply_did_not_make_is_taken_over_with_a_warning() {
    let bed = bed(|_| PodScript::runs()).await;
    let mut theirs = config(&json!({ "theirs": "1" }));
    theirs["metadata"]["namespace"] = "default".into();
    bed.plane.rest().post("/api/v1/namespaces/default/configmaps", &theirs).await.unwrap();
    let file = bed.write("c.yaml", &config(&json!({ "ours": "2" })).to_string());
    let said = bed.run(&["apply", "-f", &file]).await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), "configmap/c configured\n"), "{}", said.err);
    assert!(said.err.contains("configmap/c was not made by apply"), "{}", said.err);
    let stored = bed.plane.rest().get("/api/v1/namespaces/default/configmaps/c").await.unwrap();
    assert_eq!(stored["data"], json!({ "theirs": "1", "ours": "2" }));
}

#[tokio::test]
async fn nothing_is_sent_unless_everything_is_fine() {
    let bed = bed(|_| PodScript::runs()).await;
    let bad: Value = pytorch("bad").role("Worker", 1).set("/spec/runPolicy/backofLimit", 3).into();
    let negative: Value =
        pytorch("neg").workers(1).set("/spec/pytorchReplicaSpecs/Worker/replicas", -1).into();
    let nameless = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} });
    let documents = [config(&json!({})), bad, negative, nameless, json!({ "kind": "Pod" })];
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    let file = bed.write("all.yaml", &text.join("\n---\n"));
    let errors = bed.fails(&["apply", "-f", &file]).await;
    let expected = [
        "(document 2): PyTorchJob default/bad: spec.runPolicy.backofLimit: Unknown field",
        "(document 3): PyTorchJob default/neg: spec.pytorchReplicaSpecs[Worker].replicas: Invalid value: -1",
        "(document 4): Secret default/(no name): metadata.name: Required value",
        "(document 5): Pod default/(no name): apiVersion: Required value",
    ];
    for part in expected {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(
        bed.plane.rest().get("/api/v1/namespaces/default/configmaps/c").await.is_err(),
        "nothing was sent"
    );
}

#[tokio::test]
async fn what_the_server_does_not_know_is_said_before_anything_is_sent() {
    let bed = bed(|_| PodScript::runs()).await;
    let documents = [
        config(&json!({})),
        json!({ "apiVersion": "v1", "kind": "Conf", "metadata": { "name": "a" } }),
        json!({ "apiVersion": "v2", "kind": "ConfigMap", "metadata": { "name": "b" } }),
        json!({ "apiVersion": "x.io/v1", "kind": "X", "metadata": { "name": "c" } }),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "d", "namespace": "e" } }),
    ];
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    let file = bed.write("all.yaml", &text.join("\n---\n"));
    let errors = bed.fails(&["apply", "-f", &file]).await;
    let expected = [
        "kind: Unsupported value: \"Conf\": in v1 the server knows",
        "apiVersion: Unsupported value: \"v2\": the server has ConfigMap in v1",
        "apiVersion: Unsupported value: \"x.io/v1\": the server does not serve it",
        "metadata.namespace: Forbidden: a Namespace is in no namespace",
    ];
    for part in expected {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(
        bed.plane.rest().get("/api/v1/namespaces/default/configmaps/c").await.is_err(),
        "nothing was sent"
    );
    let empty = bed.fails(&["apply"]).await;
    assert!(empty.contains("name a file with -f FILE"), "{empty}");
}

#[tokio::test]
async fn lists_and_standard_input_and_namespaces() {
    let bed = bed(|_| PodScript::runs()).await;
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [space, config(&json!({}))] });
    let mut child =
        bed.command(&["apply", "-f", "-", "-n", "n"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).await.unwrap();
    let done = said(child).await;
    assert_eq!((done.out.as_str(), done.err.as_str()), ("namespace/n created\nconfigmap/c created\n", ""));
    let mut other = config(&json!({}));
    other["metadata"]["namespace"] = "default".into();
    let file = bed.write("c.yaml", &other.to_string());
    let error = bed.fails(&["apply", "-f", &file, "-n", "n"]).await;
    assert!(error.contains("metadata.namespace: Invalid value: \"default\": -n says \"n\""), "{error}");
}

#[tokio::test]
async fn deletes_by_name_and_by_manifest_and_waits() {
    let bed = bed(|_| PodScript::runs()).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    bed.plane.create(pytorch("b").workers(1)).await;
    bed.plane.until("pods run", |world| world.in_phase("a", "Running") == 1).await;
    assert_eq!(bed.ok(&["delete", "a"]).await, "pytorchjob.kubeflow.org \"a\" deleted\n");
    assert!(bed.plane.job("PyTorchJob", "a").await.is_none());
    let file = bed.write("c.yaml", &config(&json!({})).to_string());
    bed.ok(&["apply", "-f", &file]).await;
    assert_eq!(bed.ok(&["delete", "-f", &file]).await, "configmap \"c\" deleted\n");
    let error = bed.fails(&["delete", "-f", &file]).await;
    assert!(error.contains("no configmap c in namespace default"), "{error}");
    bed.ok(&["delete", "-f", &file, "--ignore-not-found"]).await;
    let error = bed.fails(&["delete", "nobody"]).await;
    assert!(error.contains("no job nobody in namespace default: there is pytorchjob/b"), "{error}");
    bed.ok(&["delete", "pytorchjob", "b", "--wait=false", "--cascade=orphan", "--grace-period", "0"]).await;
    assert!(bed.ok(&["get", "pods"]).await.contains("b-worker-0"), "orphans stay");
}
