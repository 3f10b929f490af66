//! What pods ask for, and what they get or are told.

use std::fs;
use std::path::Path;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::*;
use crate::kit::{Up, can_mount, eventually};

fn environment() -> Value {
    json!([
        { "name": "K", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "k" } } },
        { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "s", "key": "token" } } },
        { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        { "name": "APP", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } },
        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
        { "name": "NODE_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } } },
    ])
}

fn mounts() -> Value {
    json!([
        { "name": "cm", "mountPath": "/ty-cm" }, { "name": "secret", "mountPath": "/ty-secret" },
        { "name": "down", "mountPath": "/ty-down" }, { "name": "all", "mountPath": "/ty-all" },
        { "name": "cm", "mountPath": "/ty-one", "subPath": "file.txt" },
        { "name": "host", "mountPath": "/ty-host", "subPath": "sub" },
        { "name": "empty", "mountPath": "/ty-empty" }, { "name": "pvc", "mountPath": "/ty-pvc" },
        { "name": "empty", "mountPath": "/ty-ro", "readOnly": true },
    ])
}

fn volumes(host: &Path) -> Value {
    json!([
        { "name": "cm", "configMap": { "name": "cm" } }, { "name": "secret", "secret": { "secretName": "s" } },
        { "name": "down", "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
        { "name": "all", "projected": { "sources": [
            { "configMap": { "name": "cm", "items": [{ "key": "k", "path": "k" }] } },
            { "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } } ] } },
        { "name": "host", "hostPath": { "path": host.to_string_lossy() } },
        { "name": "empty", "emptyDir": {} }, { "name": "pvc", "persistentVolumeClaim": { "claimName": "pvc" } },
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_environment_and_volume() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &["--cpus", "2"]).await;
    let client = up.client().await;
    object(
        &client,
        "configmaps",
        json!({ "metadata": { "name": "cm" }, "data": { "k": "v", "file.txt": "text" } }),
    )
    .await;
    object(&client, "secrets", json!({ "metadata": { "name": "s" }, "stringData": { "token": "t0k3n" } }))
        .await;
    object(
        &client,
        "persistentvolumeclaims",
        json!({ "metadata": { "name": "pvc" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } }),
    )
    .await;
    let host = home.path().join("host");
    fs::create_dir_all(host.join("sub")).unwrap();
    fs::write(host.join("sub/f"), "from the host").unwrap();
    let script = "echo $K $ALL_token $TOKEN $NAME $APP $CPU $NODE_IP; \
        cat /ty-cm/file.txt /ty-secret/token /ty-down/labels /ty-all/k /ty-all/name /ty-one /ty-host/f; echo; \
        echo x > /ty-empty/x && cat /ty-empty/x; echo y > /ty-pvc/y && cat /ty-pvc/y; \
        (echo z > /ty-ro/z) 2>/dev/null || echo read-only";
    let (env, mounts, volumes) = (environment(), mounts(), volumes(&host));
    let main = with(
        sh("c", script),
        json!({ "env": env, "envFrom": [{ "prefix": "ALL_", "secretRef": { "name": "s" } }], "volumeMounts": mounts }),
    );
    make(&client, pod("all", json!({ "restartPolicy": "Never", "containers": [main], "volumes": volumes })))
        .await;
    eventually("it ends", async || {
        ["Succeeded", "Failed"].contains(&phase(&api(&client).get("all").await.unwrap()))
    })
    .await;
    let log = log(&client, "all", "c").await;
    assert!(!log.is_empty(), "{:#?}", api(&client).get("all").await.unwrap().status);
    let mut found = log.lines();
    assert_eq!(found.next(), Some("v t0k3n t0k3n all x 2 127.0.0.1"), "{log}");
    assert_eq!(found.next(), Some("textt0k3napp=\"x\"valltextfrom the host"), "{log}");
    assert_eq!(found.collect::<Vec<_>>(), ["x", "y", "read-only"], "{log}");
    assert_eq!(fs::read_to_string(up.dir.join("claims/default/pvc/y")).unwrap(), "y\n");
    assert!(!Path::new("/ty-cm").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_follows_what_it_is_made_from() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    object(&client, "configmaps", json!({ "metadata": { "name": "cm" }, "data": { "k": "before" } })).await;
    let script = "cat /ty-cm/k; echo; until grep -q after /ty-cm/k && [ -e /ty-cm/new ]; do sleep 0.2; done";
    let main = with(sh("c", script), json!({ "volumeMounts": [{ "name": "cm", "mountPath": "/ty-cm" }] }));
    let volumes = json!([{ "name": "cm", "configMap": { "name": "cm" } }]);
    make(
        &client,
        pod("follows", json!({ "restartPolicy": "Never", "containers": [main], "volumes": volumes })),
    )
    .await;
    eventually("it has read the first", async || log(&client, "follows", "c").await.trim() == "before").await;
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client.clone(), "default");
    let change = json!({ "data": { "k": "after", "new": "" } });
    maps.patch("cm", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(change)).await.unwrap();
    until(&client, "follows", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_with_an_account_reaches_the_api() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    object(&client, "serviceaccounts", json!({ "metadata": { "name": "reader" } })).await;
    let ask = "d=/var/run/secrets/kubernetes.io/serviceaccount; cat $d/namespace; echo; \
        curl --silent --show-error --cacert $d/ca.crt --header \"Authorization: Bearer $(cat $d/token)\" \
        https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/default/pods";
    let spec = |script: &str| json!({ "restartPolicy": "Never", "containers": [sh("c", script)] });
    make(&client, pod("reads", with(spec(ask), json!({ "serviceAccountName": "reader" })))).await;
    until(&client, "reads", "Succeeded").await;
    let text = log(&client, "reads", "c").await;
    assert!(text.starts_with("default\n"), "{text}");
    // It is known, and may nothing.
    assert!(text.contains("User \\\"system:serviceaccount:default:reader\\\" cannot list"), "{text}");
    // Who did not ask has no mount of it.
    let none = "test ! -e /var/run/secrets/kubernetes.io && test -z \"$KUBERNETES_SERVICE_HOST\"";
    make(&client, pod("plain", spec(none))).await;
    until(&client, "plain", "Succeeded").await;
    let wants = "test -s /var/run/secrets/kubernetes.io/serviceaccount/token";
    make(&client, pod("wants", with(spec(wants), json!({ "automountServiceAccountToken": true })))).await;
    until(&client, "wants", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_mounts_below_a_directory_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    // The last is beside the data directory, which has to stay where it is.
    let beside = home.path().join("not/there").display().to_string();
    let mounts = json!([{ "name": "a", "mountPath": "/ty/a" }, { "name": "b", "mountPath": "/ty/b" },
        { "name": "b", "mountPath": beside }]);
    let volumes = json!([{ "name": "a", "emptyDir": {} }, { "name": "b", "emptyDir": {} }]);
    let script = format!("echo x > /ty/a/x; echo y > /ty/b/y; grep y {beside}/y");
    let main = with(sh("c", &script), json!({ "volumeMounts": mounts }));
    make(&client, pod("two", json!({ "restartPolicy": "Never", "containers": [main], "volumes": volumes })))
        .await;
    until(&client, "two", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_named_and_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let from = json!([{ "configMapRef": { "name": "later" } }]);
    make(&client, pod("map", json!({ "restartPolicy": "Never", "containers": [with(sh("c", "echo $K"), json!({ "envFrom": from }))] })))
        .await;
    make(&client, pod("claim", json!({ "restartPolicy": "Never",
        "containers": [with(sh("c", "echo ok"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/ty/v" }] }))],
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "later" } }] })))
    .await;
    make(
        &client,
        pod(
            "leaves",
            json!({ "restartPolicy": "Never",
        "containers": [with(sh("c", "true"), json!({ "envFrom": [{ "secretRef": { "name": "nope" } }] }))] }),
        ),
    )
    .await;
    make(
        &client,
        pod("image", json!({ "containers": [{ "name": "c", "image": "python:3", "args": ["x.py"] }] })),
    )
    .await;
    for (name, reason) in
        [("map", "CreateContainerConfigError"), ("leaves", "CreateContainerConfigError"), ("claim", "")]
    {
        eventually(&format!("{name} says what it waits for"), async || {
            let pod = api(&client).get(name).await.unwrap();
            let (why, message) = waiting(&pod, "c");
            let named = message.contains("later") || message.contains("nope");
            phase(&pod) == "Pending" && named && (reason.is_empty() || why == reason)
        })
        .await;
    }
    eventually("what to write is told", async || {
        let pod = api(&client).get("image").await.unwrap();
        let told =
            events(&client, "image").await.iter().any(|(_, message)| message.contains("write the command"));
        told && waiting(&pod, "c").1.contains("write the command")
    })
    .await;
    object(&client, "configmaps", json!({ "metadata": { "name": "later" }, "data": { "K": "here" } })).await;
    object(
        &client,
        "persistentvolumeclaims",
        json!({ "metadata": { "name": "later" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } }),
    )
    .await;
    until(&client, "map", "Succeeded").await;
    assert_eq!(log(&client, "map", "c").await, "here\n");
    until(&client, "claim", "Succeeded").await;
    // One that never started goes at once.
    api(&client).delete("leaves", &DeleteParams::default()).await.unwrap();
    gone(&client, "leaves").await;
    let said = events(&client, "map").await;
    assert_eq!(said.iter().filter(|(reason, _)| reason == "NotHonoured").count(), 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_messages_ports_and_odd_pods() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &[]).await;
    let client = up.client().await;
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let wants = json!({ "ports": [{ "containerPort": port, "hostPort": port }] });
    make(
        &client,
        pod("port", json!({ "restartPolicy": "Never", "containers": [with(sh("c", "true"), wants)] })),
    )
    .await;
    let loud = with(
        sh("c", "echo it was the disk >&2; exit 4"),
        json!({ "terminationMessagePolicy": "FallbackToLogsOnError" }),
    );
    make(&client, pod("loud", json!({ "restartPolicy": "Never", "containers": [loud] }))).await;
    // Types that no pod has: refused, or nobody's trouble.
    let odd = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "odd" },
        "spec": { "containers": [{ "name": "c", "image": "none", "command": "not a list", "ports": {} }] } });
    let request = http::Request::post("/api/v1/namespaces/default/pods")
        .header("content-type", "application/json")
        .body(odd.to_string().into_bytes())
        .unwrap();
    let refused = client.request_text(request).await;
    println!("a pod of odd types: {refused:?}");
    let failed = until(&client, "port", "Failed").await;
    let status = failed.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("PortTaken"));
    assert!(status.message.unwrap().contains(&port.to_string()));
    let failed = until(&client, "loud", "Failed").await;
    assert_eq!(exit(&failed, "c"), (4, "Error".into(), "it was the disk\n".into()));

    let memory = json!({ "resources": { "limits": { "memory": "64Mi" } } });
    let eat = with(json!({ "name": "c", "image": "none", "command": ["tail", "/dev/zero"] }), memory);
    let enforced = trainyard_node::runtime::enforceable().memory;
    let hungry = if enforced { eat } else { with(eat, json!({ "command": ["true"] })) };
    make(&client, pod("hungry", json!({ "restartPolicy": "Never", "containers": [hungry] }))).await;
    let name = if enforced { "Failed" } else { "Succeeded" };
    let ended = until(&client, "hungry", name).await;
    if enforced {
        assert_eq!((exit(&ended, "c").0, exit(&ended, "c").1.as_str()), (137, "OOMKilled"));
    } else {
        println!("SKIPPED: OOMKilled: no memory cgroup may be made here");
        eventually("it says that limits are not kept", async || {
            let said = events(&client, "hungry").await;
            said.iter().any(|(reason, text)| reason == "NotHonoured" && text.contains("limits.memory"))
        })
        .await;
    }
    // The odd one says why nothing happens to it, and goes when it is told to.
    if refused.is_ok() {
        let path = "/api/v1/namespaces/default/pods/odd";
        let get = || http::Request::get(path).body(Vec::new()).unwrap();
        eventually("it says so", async || {
            client.request_text(get()).await.unwrap().contains("cannot be read")
        })
        .await;
        let delete = http::Request::delete(path).body(Vec::new()).unwrap();
        client.request_text(delete).await.unwrap();
    }
}
