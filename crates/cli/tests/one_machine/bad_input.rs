//! What a user gets wrong: one clear message, a non-zero exit, nothing half-made.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::{Up, each_replica, job, text, trainyard};

/// Runs a manifest that is wrong. What is said on standard error.
fn refused(home: &Path, manifest: &str, args: &[&str]) -> String {
    let file = home.join("job.yaml");
    fs::write(&file, manifest).unwrap();
    let output = trainyard(home).arg("run").args(args).arg("job.yaml").output().unwrap();
    assert!(!output.status.success(), "{manifest}: {}", text(&output.stdout));
    assert!(!home.join(".local").exists(), "something was made");
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn with(change: impl Fn(&mut Value)) -> String {
    let mut job = job("bad", 1, "true");
    change(&mut job);
    job.to_string()
}

#[test]
fn every_mistake_is_named_with_object_field_and_remedy() {
    let home = tempfile::tempdir().unwrap();
    let container = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0";
    let worker = "/spec/pytorchReplicaSpecs/Worker";
    let set = |pointer: &str, field: &str, value: Value| {
        let (pointer, field) = (pointer.to_owned(), field.to_owned());
        with(move |job| job.pointer_mut(&pointer).unwrap()[&field] = value.clone())
    };
    let gpus = json!({ "limits": { "nvidia.com/gpu": 4 } });
    for (manifest, expected) in [
        (String::new(), vec!["job.yaml", "holds no document"]),
        ("kind: [".into(), vec!["job.yaml", "YAML"]),
        (set("", "kind", json!("PyTorchJobb")), vec!["job.yaml", "PyTorchJobb", "PyTorchJob", "TFJob"]),
        (set("", "apiVersion", json!("kubeflow.org/v2")), vec!["apiVersion", "kubeflow.org/v1"]),
        (
            set("/spec", "pytorchReplicaSpec", json!({})),
            vec!["default/bad", "spec.pytorchReplicaSpec", "nknown field"],
        ),
        (set(worker, "replicas", json!("two")), vec!["default/bad", "replicas"]),
        (set(worker, "replicas", json!(-1)), vec!["default/bad", "replicas"]),
        (set("/metadata", "name", json!("x".repeat(62))), vec!["metadata.name", "63"]),
        (set("/metadata", "name", json!("Bad_Name")), vec!["metadata.name"]),
        (
            set(container, "command", json!(["trian-the-model"])),
            vec!["default/bad", "trian-the-model", "PATH"],
        ),
        (set(container, "command", json!(["./no/such/file"])), vec!["default/bad", "no/such/file"]),
        (
            set(container, "command", Value::Null),
            vec!["spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].command", "write the command"],
        ),
        (
            set(container, "volumeMounts", json!([{ "name": "disk", "mountPath": "/x" }])),
            vec!["[Worker].template.spec.containers[0].volumeMounts[0].name", "no volume \"disk\""],
        ),
        (
            set(
                &format!("{worker}/template/spec"),
                "volumes",
                json!([{ "name": "x", "nfs": { "server": "a", "path": "/" } }]),
            ),
            vec!["[Worker].template.spec.volumes[0]", "nfs"],
        ),
        (
            set(container, "resources", gpus),
            vec!["default/bad", "resources", "nvidia.com/gpu", "never", "ask for less"],
        ),
        (set("/spec", "runPolicy", json!({ "suspend": true })), vec!["suspend"]),
    ] {
        let message = refused(home.path(), &manifest, &["--gpus", "none"]);
        for part in expected {
            assert!(message.contains(part), "{part:?} is not in:\n{message}\nof {manifest}");
        }
    }
}

#[test]
fn what_no_pod_could_run_with_here_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for (manifest, expected) in [
        (
            with(|job| {
                job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeName"] = json!("other")
            }),
            vec!["[Worker].template.spec.nodeName", "not this machine"],
        ),
        (
            with(|job| {
                let volume = json!([{ "name": "v", "emptyDir": {} }]);
                let spec = &mut job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"];
                spec["containers"][0]["volumeMounts"] = json!([{ "name": "v", "mountPath": "data" }]);
                spec["volumes"] = volume;
            }),
            vec!["[Worker].template.spec.containers[0].volumeMounts[0].mountPath", "not absolute"],
        ),
        (
            job("bad", 1, "true")
                .to_string()
                .replace("PyTorchJob", "TFJob")
                .replace("\"pytorch", "\"tensorflow")
                .replace("tensorflowReplicaSpecs", "tfReplicaSpecs")
                .replace("\"replicas\":1", "\"replicas\":0"),
            vec!["spec.tfReplicaSpecs[*].replicas", "nothing would run"],
        ),
    ] {
        let message = refused(home.path(), &manifest, &[]);
        for part in expected {
            assert!(message.contains(part), "{part:?} is not in:\n{message}\nof {manifest}");
        }
    }
}

/// What the API would refuse is found before anything is made, in its words, once for all replicas.
#[test]
fn pods_that_the_api_refuses_are_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let container = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0";
    let template = "/spec/pytorchReplicaSpecs/Worker/template";
    let pod = "/spec/pytorchReplicaSpecs/Worker/template/spec";
    for (pointer, field, value, expected) in [
        (container, "env", json!([{ "name": "A=B", "value": "x" }]), "env[0].name"),
        (container, "resources", json!({ "limits": { "cpu": "-1" } }), "resources.limits[cpu]"),
        (container, "ports", json!([{ "containerPort": 0 }]), "ports[0].containerPort"),
        (
            container,
            "resources",
            json!({ "limits": { "cpu": "1m" }, "requests": { "cpu": "2m" } }),
            "must be less than or equal to cpu limit",
        ),
        (container, "imagePullPolicy", json!("Sometimes"), "imagePullPolicy"),
        (
            pod,
            "volumes",
            json!([{ "name": "v", "emptyDir": {}, "hostPath": { "path": "/tmp" } }]),
            "may not specify more than 1 volume type",
        ),
        (template, "metadata", json!({ "labels": { "l": "not a label!" } }), "metadata.labels"),
        (pod, "serviceAccountName", json!("nobody"), "serviceaccount \"nobody\" not found"),
    ] {
        let mut bad = job("bad", 2, "true");
        bad.pointer_mut(pointer).unwrap()[field] = value;
        let message = refused(home.path(), &bad.to_string(), &[]);
        let said = "PyTorchJob default/bad: Pod bad-worker-0 cannot be created: ";
        assert!(message.contains(said) && message.contains(expected), "{field}: {message}");
        assert!(!message.contains("bad-worker-1"), "{message}");
    }
}

#[test]
fn a_priority_class_that_nobody_has_made_does_not_matter() {
    let home = tempfile::tempdir().unwrap();
    let job = each_replica(job("first", 1, "true"), |replica| {
        replica["template"]["spec"]["priorityClassName"] = json!("high");
    });
    fs::write(home.path().join("job.yaml"), job.to_string()).unwrap();
    let output = trainyard(home.path()).args(["run", "job.yaml"]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let good = job("good", 0, "true").to_string();
    for (args, expected) in [
        (vec!["--ports", "9-1"], "--ports"),
        (vec!["--cpus", "many"], "many"),
        (vec!["--gpus", "GPU-nope"], "GPU-nope"),
        (vec!["--log-max-size", "big"], "--log-max-size"),
        (vec!["--ended-max-size", "big"], "--ended-max-size"),
        (vec!["--ended-max-age", "long"], "90s, 15m or 1h"),
        (vec!["--entrypoint", "image"], "--entrypoint"),
    ] {
        let message = refused(home.path(), &good, &args);
        assert!(message.contains(expected), "{message}");
    }
    let output = trainyard(home.path()).args(["run", "nowhere.yaml"]).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("nowhere.yaml"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_up_a_taken_port_and_a_newer_directory() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let up = Up::start(&dir, &[]).await;
    let second = trainyard(home.path()).args(["up", "--port", "0", "--data-dir"]).arg(&dir).output().unwrap();
    let message = text(&second.stderr);
    assert!(!second.status.success() && message.contains(&up.pid().to_string()), "{message}");
    assert!(message.contains("data") && message.contains("in use"), "{message}");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let other = home.path().join("other");
    let third =
        trainyard(home.path()).args(["up", "--port", &port, "--data-dir"]).arg(&other).output().unwrap();
    let message = text(&third.stderr);
    assert!(!third.status.success() && message.contains(&port) && message.contains("--port"), "{message}");

    let newer = home.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("version"), "99\n").unwrap();
    let fourth =
        trainyard(home.path()).args(["up", "--port", "0", "--data-dir"]).arg(&newer).output().unwrap();
    let message = text(&fourth.stderr);
    assert!(
        !fourth.status.success() && message.contains("version 99") && message.contains("newer"),
        "{message}"
    );
}

/// A port of the block that somebody else holds is no failure of the job: it moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_moves_away_from_a_taken_port() {
    let home = tempfile::tempdir().unwrap();
    // Two blocks of eight; one port in each position but one block's is held.
    let (first, held) = (23_000..31_000)
        .step_by(16)
        .find_map(|first: u16| {
            let held: Option<Vec<TcpListener>> =
                (first..first + 8).map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).collect();
            let free = (first + 8..first + 16).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok());
            held.filter(|_| free).map(|held| (first, held))
        })
        .expect("sixteen free ports in a row");
    let ports = format!("{first}-{}", first + 15);
    let job =
        each_replica(job("mover", 1, "test $MASTER_PORT -ge $FIRST && echo at $MASTER_PORT"), |replica| {
            replica["template"]["spec"]["containers"][0]["env"] =
                json!([{ "name": "FIRST", "value": (first + 8).to_string() }]);
        });
    fs::write(home.path().join("job.yaml"), job.to_string()).unwrap();
    for _ in 0..2 {
        let output = trainyard(home.path()).args(["run", "--ports", &ports, "job.yaml"]).output().unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
    drop(held);
}
